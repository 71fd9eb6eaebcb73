"""Stand-ins for what a deployment expects: functions, job files, a public DNS zone."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import boto3

from infra.artifacts import DIRECT_BYTES, FUNCTIONS


def write_built(folder: Path) -> dict[str, str]:
    """Write function archives and job files like a build's; returns the settings for them."""
    for name in FUNCTIONS:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.writestr(f"functions/{name}/handler.py", "def handler(event, context): ...\n")
    jobs = folder / "jobs"
    jobs.mkdir()
    (jobs / "environment.tar.gz").write_bytes(b"packed")
    (jobs / "audit.py").write_text("# a job\n")
    return {
        "functionsFolder": str(folder),
        "jobsFolder": str(jobs),
        "imageTag": "1.2.3",
        "checks": "false",  # they would call the real AWS; test_preflight.py tests them
    }


def with_large_archive(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The settings with an archive of ``catalog`` as large as the real one, without content."""
    large = folder / "large"
    shutil.copytree(settings["functionsFolder"], large, ignore=shutil.ignore_patterns("large"))
    os.truncate(large / "catalog.zip", DIRECT_BYTES + 1)
    return {**settings, "functionsFolder": str(large)}


def aws_client(service: str, url: str, region: str = "eu-central-1") -> Any:
    """A client of a service of the emulated AWS at ``url``."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def public_zone(url: str) -> str:
    """Create the public DNS zone of example.com in the emulated AWS at ``url``; returns its id."""
    client = aws_client("route53", url)
    made = client.create_hosted_zone(Name="example.com", CallerReference="tests")
    return str(made["HostedZone"]["Id"]).rpartition("/")[2]
