"""The commands and programs of the documents run as they are written.

Blocks of a page run in order, each in a process of its own, against a running broker. A comment
above a block says if it needs something else (`<!-- run on: a cluster -->`) or cannot run here
(`<!-- not run: why -->`).
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import sulina
from sulina.metadata.keys.policy import Policy
from tests.danube.stock import stock_python
from tests.documents.markdown import ROOT, Block, blocks, name, pages
from tests.support.local_cluster import ClusterUp
from tests.support.server import SulinaProcess

RUN_HERE: Final = [
    "README.md",
    *(name(page) for page in sorted((ROOT / "docs" / "howto").glob("*.md"))),
    "docs/reference/policies.md",
    "docs/reference/python.md",
    "docs/sql.md",
]
MIGRATE: Final = "docs/howto/migrate_from_danube.md"
WATCH: Final = "docs/howto/watch_and_alert.md"
ELSEWHERE: Final = {
    "docs/balance.md": "needs a cluster; tests/load, tests/cli/test_cluster_up.py",
    "docs/benchmarks.md": "measures for minutes; tests/benchmarks",
    "docs/client.md": "parts of programs; tests/client and tests/broker use every call",
    "docs/cluster.md": "needs a cluster; tests/cli/test_cluster_up.py",
    "docs/configuration.md": "needs a cluster; tests/cluster_services",
    "docs/containers.md": "needs a container engine; make containers",
    "docs/danube.md": "needs Danube's command line; tests/danube_admin",
    "docs/danube_clients.md": "part of a program; tests/danube",
    "docs/deploy.md": "needs an AWS account; tests/infra",
    "docs/faults.md": "harms processes for minutes; tests/faults, make chaos",
    "docs/functions.md": "needs an AWS account; tests/functions",
    "docs/http.md": "tests/http/test_table.py",
    "docs/jobs.md": "needs Spark; tests/spark",
    "docs/lake.md": "needs a lake; tests/lake, tests/spark",
    "docs/local_cloud.md": "installs LocalStack; tests/localstack",
    "docs/objects.md": "needs object stores; tests/objects",
    "docs/operations.md": "needs a cluster to harm; tests/procedures",
    "docs/reference/cli.md": "generated from the examples of commands; tests/cli/test_help.py",
    "docs/releasing.md": "publishes a release",
    "docs/security.md": "needs tokens; tests/auth",
    "docs/spark.md": "needs Spark; tests/spark",
    "docs/tables.md": "needs a lake; tests/tables",
    "docs/tiering.md": "needs an object store; tests/tier",
    "docs/tour_lake.md": "needs LocalStack and Spark; tests/localstack",
    "docs/tracing.md": "needs a collector; tests/tracing",
    "functions/README.md": "needs an AWS account; tests/functions",
    "localstack/README.md": "installs LocalStack; tests/localstack",
    "tests/chaos/README.md": "harms processes for minutes; make chaos",
}


def _programs(page: str) -> list[Block]:
    return [block for block in blocks(ROOT / page) if block.language in ("sh", "python")]


def test_every_page_with_commands_is_run_or_says_why_not() -> None:
    found = {name(page) for page in pages() if _programs(name(page))}
    assert found - set(RUN_HERE) - set(ELSEWHERE) == set()
    assert set(ELSEWHERE) <= found, "these pages have no commands: take them off the list"
    for block in (block for page in RUN_HERE for block in _programs(page)):
        assert not block.note or block.note.startswith(("not run: ", "run on: "))


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_commands_of_the_page_succeed(
    page: str, shared_sulina_process: SulinaProcess, tmp_path: Path
) -> None:
    chosen = [block for block in _programs(page) if not block.note]
    assert chosen
    server = shared_sulina_process
    _run_all(chosen, server.url, server.http_url, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tour_of_a_cluster_succeeds(tmp_path: Path) -> None:
    chosen = [block for block in _programs("README.md") if block.note == "run on: a cluster"]
    assert chosen
    size = ("--brokers", "3", "--storage", "3", "--etcd", "1")
    with ClusterUp(tmp_path / "data", *size) as cluster:
        http_url = cluster.ready["brokers"][0]["http_url"]
        _run_all(chosen, cluster.url, http_url, tmp_path)


def _run_all(chosen: list[Block], url: str, http_url: str, folder: Path) -> None:
    environment = _environment(url, folder)
    for block in chosen:
        text = block.text.replace("sulina://127.0.0.1:6655", url)
        text = text.replace("http://127.0.0.1:8080", http_url)
        program = [sys.executable] if block.language == "python" else ["bash", "-euo", "pipefail"]
        done = subprocess.run(
            [*program, "-c", text],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def _environment(url: str, folder: Path) -> dict[str, str]:
    """A shell in which `sulina` is this tree's, and talks to the broker of the test."""
    command = folder / "bin" / "sulina"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sulina.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "SULINA_URL": url}


@pytest.mark.slow
def test_messages_are_copied_from_danube(tmp_path: Path) -> None:
    [block] = [block for block in _programs(MIGRATE) if block.note == "run on: Danube's client"]
    topic = "/default/orders"
    with SulinaProcess(tmp_path / "old") as old, SulinaProcess(tmp_path / "new") as new:
        addresses = [f"http://127.0.0.1:{server.grpc_port}" for server in (old, new)]
        create = ["topic", "create", topic]
        command = [sys.executable, "-m", "sulina.cli"]
        subprocess.run([*command, *create, "--url", old.url], check=True, timeout=60)
        copy = subprocess.Popen(
            [str(stock_python()), "-c", block.text, *addresses, topic], stdout=subprocess.PIPE
        )
        try:
            assert copy.stdout is not None
            assert copy.stdout.readline() == b"copying /default/orders\n"
            send = ["produce", topic, "one", "two", "--key", "table-7", "--url", old.url]
            subprocess.run([*command, *send], check=True, timeout=60)
            take = ["consume", topic, "--from", "earliest", "--count", "2", "--show-key"]
            done = subprocess.run(
                [*command, *take, "--url", new.url], capture_output=True, text=True, timeout=60
            )
        finally:
            copy.kill()
            copy.communicate()
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["table-7", "one"],
        ["table-7", "two"],
    ]


def test_metrics_named_by_the_guides_exist() -> None:
    known = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    for page in (WATCH, "docs/alerts.md"):
        text = (ROOT / page).read_text()
        for metric in set(re.findall(r"\b(?:sulina|danube)_[a-z_]*[a-z](?!\()\b", text)):
            assert f"`{metric.removesuffix('_bucket')}" in known, f"{page}: no metric {metric}"


def test_the_reference_of_the_python_api_names_everything() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    listed = {each for names in re.findall(r"<!-- api: (.+) -->", page) for each in names.split()}
    assert listed == set(sulina.__all__) - {"__version__"}
    for each in sulina.__all__:
        assert re.search(rf"`{each}[`(]", page), f"{each} is missing"


@pytest.mark.parametrize("policy", [Policy(), sulina.FailurePolicy()])
def test_the_reference_of_policies_has_every_field_with_its_default(
    policy: Policy | sulina.FailurePolicy,
) -> None:
    page = (ROOT / "docs" / "reference" / "policies.md").read_text()
    for field in dataclasses.fields(policy):
        value = getattr(policy, field.name)
        shown = f"{value:,}" if type(value) is int else f"`?{str(value).lower() or 'none'}`?"
        assert re.search(rf"^\| `{field.name}` \| {shown} \|", page, re.M), field.name
