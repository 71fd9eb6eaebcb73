"""Every command has help and is in docs/reference/cli.md, also without the servers' packages."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sulina.cli.app import COMMANDS, SERVER_COMMANDS, app
from sulina.cli.command import CliCommand
from sulina.cli.reference import reference
from sulina.cli.settings import CliSettings
from tests.cli.runner import SulinaCommand


def commands(
    group: click.Group = app, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands with their paths."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands())


def test_the_first_page_names_every_command_and_the_exit_codes() -> None:
    ran = SulinaCommand("sulina://127.0.0.1:1")("--help")
    for name in [*COMMANDS, *(each.name for each in SERVER_COMMANDS)]:
        assert f"  {name} " in ran.stdout
    assert "no broker could be reached" in ran.stdout
    assert "_SULINA_COMPLETE" in ran.stdout


def test_versions_are_printed() -> None:
    nobody = SulinaCommand("sulina://127.0.0.1:1")
    [number] = nobody("--version").lines()
    assert number.startswith("sulina ")
    assert nobody("version").stdout.startswith(number + ", python ")
    assert nobody("version", "--json").json()["sulina"] == number.removeprefix("sulina ")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself_with_examples(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert isinstance(command, CliCommand)
    text = command.get_help(click.Context(command, info_name=" ".join(path)))
    assert command.help
    assert "Examples:" in text
    assert "--json" in text


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_example_is_a_valid_command_line(
    path: tuple[str, ...], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ALL[path]
    assert isinstance(command, CliCommand)
    monkeypatch.chdir(str(tmp_path))
    for example in command.examples:
        words = shlex.split(example)
        words = words[words.index("sulina") + 1 :]
        if "|" in words:
            words = words[: words.index("|")]
        assert tuple(words[: len(path)]) == path
        for word in words:
            if word.rpartition(".")[2] in ("jsonl", "png", "pem", "key"):
                with open(word, "w"):
                    pass
        command.make_context(" ".join(path), words[len(path) :], obj=CliSettings())


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_of_the_command_line_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: .venv/bin/python -m sulina.cli.reference > docs/reference/cli.md"
    )


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
