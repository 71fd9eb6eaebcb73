"""How all commands behave: help with examples, the common options, errors as one sentence.

Commands that run servers live with the servers, which register them as entry points. The command
line knows their names and summaries, and loads one only to run it or to show its help.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import click

from sulina.cli.failures import failure
from sulina.cli.settings import COMMON, CliSettings, CommonOption, common_options
from sulina.errors import Refused, SulinaError

JSON_ONLY: Final = ("json",)
ENTRY_POINTS: Final = "sulina.commands"


class CliCommand(click.Command):
    """A command with examples in its help, and with the common options that it uses.

    Its function gets the settings, a ``CliSettings``, as the first argument.
    """

    def __init__(
        self,
        name: str | None,
        callback: Callable[..., Any],
        examples: Iterable[str] = (),
        common: Iterable[str] = COMMON,
        **attributes: Any,
    ) -> None:
        super().__init__(name, callback=click.pass_obj(callback), **attributes)
        self.examples = tuple(examples)
        self.params.extend(common_options(common))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. Errors of Sulina and of the system become ``Failed``, with an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            silence_stdout()
            ctx.exit(0)
        except (SulinaError, OSError) as error:
            raise failure(error, as_json=ctx.obj.json) from error
        else:
            return result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, the common ones under their own heading."""
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    # Not wrapped, so that it can be copied.
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A command that runs a server, known by the name of its entry point."""

    entry_point: str
    """The words of the command, joined by dots: ``broker.run``."""
    summary: str
    extra: str = "all-in-one"
    """What to install where it is missing."""

    @property
    def name(self) -> str:
        """The last word of the command."""
        return self.entry_point.rpartition(".")[2]

    def load(self) -> click.Command:
        """The command itself; where the server is not installed, one that says so."""
        from importlib.metadata import entry_points  # slow to import, and rarely needed

        missing = "the server"
        try:
            for found in entry_points(group=ENTRY_POINTS, name=self.entry_point):
                command: click.Command = found.load()
                return command
        except ModuleNotFoundError as error:
            missing = f"the package {error.name}"
        return _NotInstalled(self, missing)


class _NotInstalled(CliCommand):
    """Takes any arguments, and answers with what to install."""

    def __init__(self, wanted: ServerCommand, missing: str) -> None:
        words = f"`sulina {wanted.entry_point.replace('.', ' ')}`"
        self._remedy = (
            f"{words} needs {missing}, which is not installed: pip install 'sulina[{wanted.extra}]'"
        )
        super().__init__(
            wanted.name,
            help=f"{wanted.summary}\n\n{self._remedy}",
            common=JSON_ONLY,
            params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
            context_settings={"ignore_unknown_options": True},
            callback=self._refuse,
        )

    def _refuse(self, settings: CliSettings, arguments: tuple[str, ...]) -> None:
        raise Refused(self._remedy)


class CliGroup(click.Group):
    """Commands in the order of their definition, those that run servers first."""

    command_class = CliCommand

    def __init__(
        self, *arguments: Any, server_commands: Iterable[ServerCommand] = (), **attributes: Any
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.server_commands = {each.name: each for each in server_commands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.server_commands, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.server_commands:
            return self.server_commands[cmd_name].load()
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and summaries, without loading a server."""
        rows = [(each.name, each.summary) for each in self.server_commands.values()]
        limit = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        rows += [(name, each.get_short_help_str(limit)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Two lists: the command's own options, and the common ones."""
    own: list[tuple[str, str]] = []
    common: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = option_help(parameter, ctx)
        if record is not None:
            (common if isinstance(parameter, CommonOption) else own).append(record)
    for title, records in (("Options", own), ("Common options", common)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def option_help(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    """An option with its value, and its description; None for arguments and hidden options."""
    record = parameter.get_help_record(ctx)
    if record is None or isinstance(parameter, click.Argument):
        return None
    return re.sub(r"(INTEGER|FLOAT)( RANGE)?", "N", record[0]), record[1]


def silence_stdout() -> None:
    """Send what is still buffered to /dev/null, after the reader of standard output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
