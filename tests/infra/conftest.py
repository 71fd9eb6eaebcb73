"""The resource graphs of the stacks, built once for all processes of a test run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trustme

from localstack.deployment.stack_files import ROOT
from localstack.emulators.moto import running_moto
from tests.infra.builds import aws_client, public_zone, with_large_archive, write_built
from tests.infra.graph import Graph
from tests.support.fixtures import made_once

DOMAIN = "sulina.example.com"
RUNNING = [f"10.42.{zone}.10" for zone in (48, 49, 50)] + ["10.42.48.20", "10.42.50.20"]
"""The addresses of all machines of prod except that of ``storage-2``."""
LONGEST = "a-name-of-the-most"
"""A stack's name of the greatest length."""
_PATIENCE = 540
"""The timeout for all plans together, which take 15 s of CPU on an idle machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first test waits for all plans.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(_PATIENCE + 60))


@pytest.fixture(scope="session")
def graph_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Graph]:
    """Returns a plan's graph by name. One process of a test run builds them for all."""
    folder = made_once(tmp_path_factory, "infra", _make)

    def graph(name: str) -> Graph:
        return Graph.read(folder / f"{name}.json")

    return graph


@pytest.fixture
def prod(graph_of: Callable[[str], Graph]) -> Graph:
    """The graph of the production stack."""
    return graph_of("prod")


@pytest.fixture
def deployed(graph_of: Callable[[str], Graph]) -> Graph:
    """The production stack in a later deployment; the machine of ``storage-2`` is gone."""
    return graph_of("deployed")


@pytest.fixture
def dev(graph_of: Callable[[str], Graph]) -> Graph:
    """The graph of the development stack."""
    return graph_of("dev")


@pytest.fixture
def public(graph_of: Callable[[str], Graph]) -> Graph:
    """The production stack with a public endpoint, before its images are pushed."""
    return graph_of("public")


@pytest.fixture
def emulated(graph_of: Callable[[str], Graph]) -> Graph:
    """The production stack, created in an emulated account."""
    return graph_of("emulated")


def _make(folder: Path) -> None:
    """Run the program for all plans. Blocks for seconds; fails with its output."""
    built = write_built(folder)
    named = {**built, "domain": DOMAIN, "zoneId": "Z0123456789ABC"}
    public = {**named, "public": "true", "allowed": "203.0.113.0/24", "upTo": "cluster"}
    del public["imageTag"]
    public["images"] = "none"  # not pushed yet
    public["internalAuthorities"] = "new,1"
    public["machineImage"] = "ami-00000000000000001"
    authorities = folder / "clients.pem"
    authorities.write_bytes(trustme.CA().cert_pem.bytes())
    mutual = {**public, "clientAuthorities": str(authorities)}
    linked = {
        **mutual,
        "public": "false",
        "allowed": "10.42.0.0/16,10.7.0.0/16",
        "privateLink": "111122223333,arn:aws:iam::444455556666:role/consumer",
    }
    del linked["clientAuthorities"]
    building = {name: value for name, value in built.items() if name != "imageTag"}
    developed = {**building, "alarmEmail": "team@example.com", "prometheus": "true"}
    with running_moto(folder) as server:
        zone = public_zone(server.url)
        for number in range(3):  # next to the default one and that of prod
            aws_client("ec2", server.url).create_vpc(CidrBlock=f"10.{number}.0.0/16")
        plans = [
            _plan("dev", "dev", developed),
            _plan("prod", "prod", named),
            _plan("deployed", "prod", with_large_archive(folder, named), running=RUNNING),
            _plan("moved", "prod", {**named, "network": "10.43.0.0/16"}, running=RUNNING),
            _plan("behind", "prod", named, running=RUNNING, behind=["broker"]),
            _plan("longest", LONGEST, named, file="prod"),
            _plan("public", "prod", public),
            _plan("mutual", "prod", mutual),
            _plan("linked", "prod", linked),
            _plan("localstack", "localstack", built),
            _plan("unbuilt", "dev", {**built, "functionsFolder": "nowhere"}),
            _plan("emulated", "prod", {**named, "zoneId": zone}, aws=server.url),
            _plan("emulated-dev", "dev", developed, aws=server.url),
            _plan("short", "dev", {**built, "checks": "true"}),
        ]
        (folder / "plans.json").write_text(json.dumps(plans))
        done = subprocess.run(
            [sys.executable, "-m", "tests.infra.runner", folder / "plans.json", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
            env={
                **os.environ,
                # For the plan that checks its account: no plan can reach the real AWS.
                "AWS_ENDPOINT_URL": server.url,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
            },
        )
    assert done.returncode == 0, done.stdout + done.stderr


def _plan(
    name: str,
    stack: str,
    settings: dict[str, str],
    *,
    file: str = "",
    running: Sequence[str] = (),
    behind: Sequence[str] = (),
    aws: str = "",
) -> dict[str, object]:
    return {
        "name": name,
        "stack": stack,
        "file": file or stack,
        "settings": settings,
        "running": running,
        "behind": behind,
        "aws": aws,
    }
