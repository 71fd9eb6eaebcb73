"""Options of whatever runs a broker, one process or one of a cluster."""

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
    """Adds them, in the order in which the help shows them."""
    options: list[Decorator] = [
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
        ),
        click.option(
            "--port",
            type=_PORT,
            default=6655,
            show_default=True,
            help="The binary port; 0 takes one that is free.",
        ),
        _door("--http-port", "HTTP: administration, health, metrics", HTTP_PORT),
        _door("--grpc-port", "Danube's clients (gRPC)", GRPC_PORT),
        click.option(
            "--grpc-advertise",
            metavar="URL",
            default="",
            help="Where Danube's clients find it, if not at the address it listens on: "
            "http://host:6650.",
        ),
        _door("--admin-port", "Danube's admin tools (gRPC)", ADMIN_PORT),
        click.option(
            "--tls-cert", type=_FILE, help="Serve TLS with this certificate (PEM, with its chain)."
        ),
        click.option("--tls-key", type=_FILE, help="The certificate's key (PEM)."),
        click.option(
            "--cache-mb",
            type=click.IntRange(min=1),
            default=256,
            show_default=True,
            help="Memory for messages that consumers read while they are fresh.",
        ),
        click.option(
            "--write-quorum",
            type=click.IntRange(min=1),
            default=3,
            show_default=True,
            help="On how many storage nodes each message is kept.",
        ),
        click.option(
            "--ack-quorum",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="How many of them must have it before it is acknowledged.",
        ),
        click.option(
            "--tier-after",
            type=click.FloatRange(min=1),
            default=900.0,
            show_default=True,
            metavar="SECONDS",
            help="With --tier, how long messages wait at most before they go to the object store.",
        ),
        click.option(
            "--tier-local",
            type=click.FloatRange(min=0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="With --tier, how long messages stay on storage nodes as well.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default="warning",
            show_default=True,
            help="How much to tell on standard error.",
        ),
    ]
    command = auth_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def _door(name: str, what: str, default: int) -> Decorator:
    return click.option(
        name,
        type=_PORT,
        help=f"The port for {what}; 0 takes one that is free. "
        f"[default: {default}, or a free one with --port 0]",
    )


def check_quorum(write_quorum: int, ack_quorum: int) -> None:
    """Raise ``UsageError`` for quorums that would not overlap."""
    if not write_quorum >= ack_quorum > write_quorum / 2:
        raise click.UsageError("more than half of --write-quorum must be in --ack-quorum")
