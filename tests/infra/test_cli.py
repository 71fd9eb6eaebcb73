"""The same program under Pulumi's own command, where one is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from localstack.deployment.stack_files import ROOT

_PULUMI = shutil.which("pulumi")


@pytest.mark.skipif(
    _PULUMI is None, reason="Pulumi's command is not installed; it comes from pulumi.com"
)
def test_pulumi_previews_the_stack_of_localstack(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }

    def pulumi(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_PULUMI), *arguments, "--non-interactive"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )

    listed = pulumi("plugin", "ls", "--json")
    if not any(plugin["name"] == "aws" for plugin in json.loads(listed.stdout or "[]")):
        pytest.skip(
            "Pulumi's plugin for AWS is not installed: `pulumi plugin install resource aws`"
        )
    made = pulumi("stack", "init", "localstack")
    assert made.returncode == 0, made.stderr
    seen = pulumi("preview", "--stack", "localstack", "--json")
    assert seen.returncode == 0, seen.stdout + seen.stderr
    kinds = {step["newState"]["type"] for step in json.loads(seen.stdout)["steps"]}
    assert "aws:s3/bucket:Bucket" in kinds
