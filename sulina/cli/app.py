"""The root of the command line: all commands, the global options, exit codes."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from sulina.cli.commands import Group, silence_stdout
from sulina.cli.failures import EXIT_CODES, ExitCode, debugging, sentence
from sulina.cli.settings import Settings, common_options
from sulina.version import __version__

COMMANDS: Final = {
    "up": ("sulina.cli.up", "Run a whole Sulina in one process, or a cluster of processes."),
    "storage": ("sulina.cli.storage", "Run a storage node of a cluster."),
    "broker": ("sulina.cli.broker", "Run, list, describe, drain and activate brokers."),
    "produce": ("sulina.cli.produce", "Publish messages to TOPIC."),
    "consume": ("sulina.cli.consume", "Print the messages of TOPIC as they come."),
    "peek": ("sulina.cli.peek", "Print messages that TOPIC holds."),
    "bench": ("sulina.cli.bench", "Measure messages a second and latency."),
    "topic": ("sulina.cli.topics", "Make, list, describe, move and delete topics."),
    "ledger": ("sulina.cli.ledgers", "Show the ledgers of topics, make objects of them."),
    "subscription": (
        "sulina.cli.subscriptions",
        "Make, list, describe, move and delete subscriptions.",
    ),
    "namespace": ("sulina.cli.namespaces", "Make, list, describe and delete namespaces."),
    "schema": ("sulina.cli.schemas", "Register, compare and look up schemas."),
    "security": ("sulina.cli.security", "Make and revoke tokens, say who may do what."),
    "cluster": ("sulina.cli.cluster", "Look at the cluster as a whole."),
    "balance": ("sulina.cli.balance", "Show and even out the load of the brokers."),
    "config": ("sulina.cli.config", "Show and change settings while brokers run."),
    "ping": ("sulina.cli.ping", "Ask the broker for an answer."),
    "version": ("sulina.cli.versions", "Show what is installed."),
}
"""Where each command is, and what the first page of the help says about it."""


class _Root(Group):
    """Loads a command only when it is used: the help, and completion, must not wait for all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The exit codes, and the way to shell completion."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), text) for code, text in EXIT_CODES.items()])
        with formatter.section("Shell completion"):
            formatter.write_text('eval "$(_SULINA_COMPLETE=bash_source sulina)"')
            formatter.write_text("zsh_source and fish_source do it for those shells.")


@click.group(
    cls=_Root,
    params=common_options(environment=True),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="sulina", message="%(prog)s %(version)s")
def app() -> None:
    """Sulina: durable publish/subscribe messaging.

    `sulina up` runs everything in one process; the other commands talk to a broker. The common
    options may stand before a command or behind it. SULINA_DEBUG=1 shows where an error comes
    from.
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns the process's exit code. Never raises."""
    try:
        result = app.main(
            list(arguments), prog_name="sulina", standalone_mode=False, obj=Settings()
        )
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return ExitCode.FINE
    except Exception as error:
        if debugging():
            traceback.print_exc()
        click.echo(f"sulina: {sentence(error)}", err=True)
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.FINE
