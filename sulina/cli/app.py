"""The root of the command line: all commands, the global options, exit codes."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from sulina.cli.command import CliGroup, ServerCommand, silence_stdout
from sulina.cli.failures import EXIT_CODES, ExitCode, debugging, sentence
from sulina.cli.settings import CliSettings, common_options
from sulina.runtime.terminal import visible
from sulina.version import __version__

SERVER_COMMANDS: Final = (
    ServerCommand("up", "Run Sulina in one process, or a cluster of processes."),
    ServerCommand("storage", "Run a storage node of a cluster.", extra="storage,cli"),
)
COMMANDS: Final = {
    "broker": ("sulina.cli.admin.brokers", "Run, list, describe, drain and activate brokers."),
    "produce": ("sulina.cli.messages.produce", "Publish messages to a topic."),
    "consume": ("sulina.cli.messages.consume", "Print messages of a topic as they arrive."),
    "peek": ("sulina.cli.messages.peek", "Print messages stored in a topic."),
    "top": ("sulina.cli.top.command", "Watch brokers, topics and subscriptions, live."),
    "bench": ("sulina.cli.bench.command", "Measure throughput and latency."),
    "topic": ("sulina.cli.admin.topics", "Create, list, describe, move and delete topics."),
    "ledger": ("sulina.cli.admin.ledgers", "List ledgers, tier them and verify their objects."),
    "sql": ("sulina.cli.sql", "Query topics with SQL, in DuckDB."),
    "table": ("sulina.cli.tables", "Show topics as Iceberg tables over their objects."),
    "subscription": (
        "sulina.cli.admin.subscriptions",
        "Create, list, describe, seek and delete subscriptions.",
    ),
    "namespace": ("sulina.cli.admin.namespaces", "Create, list, describe and delete namespaces."),
    "quota": ("sulina.cli.admin.quotas", "Show and change quotas and their use."),
    "schema": ("sulina.cli.admin.schemas", "Register, check and look up schemas."),
    "login": ("sulina.cli.login", "Sign in with the brokers' provider of identities."),
    "logout": ("sulina.cli.login", "Delete a stored sign-in."),
    "whoami": ("sulina.cli.login", "Show who you are to the broker, and your rights."),
    "security": ("sulina.cli.admin.security", "Manage tokens, grants, roles and bindings."),
    "cluster": ("sulina.cli.admin.brokers", "Describe the cluster, and rebuild lost metadata."),
    "balance": ("sulina.cli.admin.balance", "Show and even out the load of brokers."),
    "config": ("sulina.cli.admin.config", "Show and change settings of running brokers."),
    "mcp": ("sulina.cli.mcp.command", "Serve the operations to assistants that speak MCP."),
    "ping": ("sulina.cli.diagnostics", "Measure the round-trip time to a broker."),
    "version": ("sulina.cli.diagnostics", "Show the versions of what is installed."),
}
"""The module of each client command, and its summary for ``sulina --help``."""


class _Root(CliGroup):
    """Loads a command only when it is used, so that help and completion are fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.server_commands, *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        servers = [(each.name, each.summary) for each in self.server_commands.values()]
        clients = [(name, summary) for name, (_, summary) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*servers, *clients])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The exit codes, and how to enable shell completion."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), text) for code, text in EXIT_CODES.items()])
        with formatter.section("Shell completion"):
            formatter.write_text('eval "$(_SULINA_COMPLETE=bash_source sulina)"')
            formatter.write_text(
                "For other shells, replace bash_source with zsh_source or fish_source."
            )


@click.group(
    cls=_Root,
    server_commands=SERVER_COMMANDS,
    params=common_options(environment=True),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="sulina", message="%(prog)s %(version)s")
def app() -> None:
    """Sulina: durable publish/subscribe messaging.

    `sulina up` runs everything in one process; most other commands connect to a broker. Common
    options can be given before or after a command. SULINA_DEBUG=1 prints the traceback of an
    error.
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and return the exit code for the process. Never raises."""
    try:
        result = app.main(
            list(arguments), prog_name="sulina", standalone_mode=False, obj=CliSettings()
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
        click.echo(visible(f"sulina: {sentence(error)}"), err=True)
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.FINE
