"""Options of the commands that run a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from broker_containers.commands.auth_options import auth_options
from broker_containers.commands.listening import ADMIN_PORT, GRPC_PORT, HTTP_PORT

LEVELS: Final = ("debug", "info", "warning", "error")
_PORT: Final = click.IntRange(0, 65535)
_FILE: Final = click.Path(exists=True, dir_okay=False)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, in the order in which the help shows them."""
    options: list[Decorator] = [
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
        ),
        click.option(
            "--port",
            type=_PORT,
            default=6655,
            show_default=True,
            help="Port for Sulina clients; 0 picks a free one.",
        ),
        _port("--http-port", "HTTP: administration, health and metrics", HTTP_PORT),
        _port("--grpc-port", "Danube's clients (gRPC)", GRPC_PORT),
        click.option(
            "--grpc-advertise",
            metavar="URL",
            default="",
            help="URL at which Danube's clients reach it, such as http://host:6650. "
            "[default: the address it listens on]",
        ),
        _port("--admin-port", "Danube's admin tools (gRPC)", ADMIN_PORT),
        click.option("--tls-cert", type=_FILE, help="Serve TLS with this certificate chain (PEM)."),
        click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM)."),
        click.option(
            "--cache-mb",
            type=click.IntRange(min=1),
            default=256,
            show_default=True,
            help="Memory for recent messages, in MiB.",
        ),
        click.option(
            "--write-quorum",
            type=click.IntRange(min=1),
            default=3,
            show_default=True,
            help="Number of storage nodes that store each message.",
        ),
        click.option(
            "--ack-quorum",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="Number of them that must have stored a message before it is acknowledged.",
        ),
        click.option(
            "--tier-after",
            type=click.FloatRange(min=1),
            default=900.0,
            show_default=True,
            metavar="SECONDS",
            help="With --tier, maximum age of messages before they are copied to the object store.",
        ),
        click.option(
            "--tier-local",
            type=click.FloatRange(min=0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="With --tier, how long messages stay on storage nodes after that.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default="warning",
            show_default=True,
            help="Log level for standard error.",
        ),
    ]
    command = auth_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def _port(name: str, what: str, default: int) -> Decorator:
    return click.option(
        name,
        type=_PORT,
        help=f"Port for {what}; 0 picks a free one. "
        f"[default: {default}, or a free one with --port 0]",
    )


def check_quorum(write_quorum: int, ack_quorum: int) -> None:
    """Raise ``UsageError`` for ack quorums that would not overlap."""
    if not write_quorum >= ack_quorum > write_quorum / 2:
        raise click.UsageError(
            "--ack-quorum must be more than half of --write-quorum, and not exceed it"
        )
