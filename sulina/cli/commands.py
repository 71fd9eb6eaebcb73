"""How commands behave alike: help with examples, the common options, errors as a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

import click

from sulina.cli.failures import failure
from sulina.cli.settings import COMMON, CommonOption, common_options
from sulina.errors import SulinaError

JSON_ONLY: Final = ("json",)


class Command(click.Command):
    """A command with examples in its help, and with the common options that it has use for."""

    def __init__(
        self,
        *arguments: Any,
        examples: Iterable[str] = (),
        common: Iterable[str] = COMMON,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = tuple(examples)
        self.params.extend(common_options(common))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. Whatever Sulina or the system refuses becomes ``Failed``, with an exit code."""
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
                    # Unwrapped: it is there to be copied.
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Group(click.Group):
    """Commands in the order in which they were written down."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Two lists: what is special here, and what is the same everywhere."""
    own: list[tuple[str, str]] = []
    common: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and not isinstance(parameter, click.Argument):
            (common if isinstance(parameter, CommonOption) else own).append(record)
    for title, records in (("Options", own), ("Common options", common)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def silence_stdout() -> None:
    """Nobody reads standard output any more: let what is still buffered go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
