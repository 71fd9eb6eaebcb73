"""``pip install sulina[cli]``: a client's command line, without the packages of the servers."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sulina.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
_BLOCKED = (
    *("broker_containers", "storage_grpc", "emr_jobs", "functions"),
    *("aiohttp", "etcd3", "fastavro", "grpc", "jsonschema", "lz4", "psutil", "pyarrow", "uvloop"),
)
_PROGRAM = (
    f"import sys; sys.modules.update(dict.fromkeys({_BLOCKED!r})); "
    "from sulina.cli import main; main()"
)


def sulina(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), ("broker", "drain")])
def test_client_commands_load_without_the_servers(command: tuple[str, ...]) -> None:
    done = sulina(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert " ".join(("Usage: sulina", *command)) in done.stdout


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("up --brokers 3", "pip install 'sulina[all-in-one]'"),
        ("storage --id a", "pip install 'sulina[storage,cli]'"),
        ("broker run --id b", "pip install 'sulina[all-in-one]'"),
        ("cluster rebuild", "pip install 'sulina[all-in-one]'"),
    ],
)
def test_a_server_command_says_what_to_install(command: str, remedy: str) -> None:
    done = sulina(*command.split())
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and remedy in done.stderr
    words = " ".join(word for word in command.split()[:2] if not word.startswith("-"))
    assert f"`sulina {words}`" in done.stderr
    asked_for_help = sulina(*words.split(), "--help")
    assert asked_for_help.returncode == 0 and "pip install" in asked_for_help.stdout


def test_every_server_command_is_registered_by_the_project() -> None:
    from sulina.cli.admin.brokers import broker, cluster
    from sulina.cli.app import app

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    offered = {
        each.entry_point
        for group in (app, broker, cluster)
        for each in getattr(group, "server_commands", {}).values()
    }
    assert offered == set(project["entry-points"]["sulina.commands"])


@pytest.mark.parametrize(
    ("statement", "not_imported"),
    [
        ("from sulina.cli.app import run; run(['--help'])", ("sulina.client", "asyncio", "rich")),
        (
            "from sulina.operations.client import AdminClient; AdminClient(None).topics",
            ("sulina.metadata.store", "sulina.operations.cluster", "sulina.operations.security"),
        ),
    ],
)
def test_commands_import_only_what_they_use(statement: str, not_imported: tuple[str, ...]) -> None:
    program = f"{statement}; import sys; assert not {set(not_imported)} & {{*sys.modules}}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
