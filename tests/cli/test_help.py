"""Every command has help with valid examples, and is in docs/reference/cli.md."""

from __future__ import annotations

import shlex
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
