"""Options of the commands that run a broker, and for TLS within a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.assembly.running import DoorSettings
from broker_containers.commands.auth_options import SecurityOptions, security_options
from broker_containers.commands.listening import (
    ADMIN_PORT,
    GRPC_PORT,
    HTTP_PORT,
    danube_admin_listen,
    danube_listen,
    port_or_default,
    tls_context,
)
from broker_containers.doors.listen import Listen
from broker_containers.topics.tiering import TieringSettings
from storage_grpc.quorum.settings import QuorumSettings
from sulina.runtime.machine import keep_files_private
from sulina.runtime.terminal import start_logging
from sulina.runtime.tls_files import TlsFiles

LEVELS: Final = ("debug", "info", "warning", "error")
_PORT: Final = click.IntRange(0, 65535)
_FILE: Final = click.Path(exists=True, dir_okay=False)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


WRITE_QUORUM: Final[Decorator] = click.option(
    "--write-quorum",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of storage nodes that store each message.",
)
ACK_QUORUM: Final[Decorator] = click.option(
    "--ack-quorum",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of them that must have stored a message before it is acknowledged.",
)


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The values of the options that ``broker_options`` adds, by their names."""

    host: str
    port: int
    http_port: int | None
    grpc_port: int | None
    grpc_advertise: str
    admin_port: int | None
    tls_cert: str | None
    tls_key: str | None
    tls_client_ca: str | None
    security: SecurityOptions
    cache_mb: int
    write_quorum: int
    ack_quorum: int
    tier_after: float
    tier_local: float
    log_level: str

    def port_for(self, wanted: int | None, default: int) -> int:
        """The port of a door, for its option and its default."""
        return port_or_default(wanted, self.port, default)

    def doors(self, grpc_proxy: str = "") -> DoorSettings:
        """Where to listen. Raises ``Refused`` for files and URLs that can't be used."""
        host, port, files = self.host, self.port, (self.tls_cert, self.tls_key)
        tls = None
        if self.tls_cert is not None:
            tls = tls_context(self.tls_cert, self.tls_key, self.tls_client_ca)
        return DoorSettings(
            Listen(host, port, tls),
            Listen(host, self.port_for(self.http_port, HTTP_PORT), tls),
            danube_admin_listen(host, port, self.admin_port, *files),
            danube_listen(host, port, self.grpc_port, *files, self.grpc_advertise, grpc_proxy),
            () if self.tls_cert is None else (Path(self.tls_cert),),
        )

    @property
    def quorum(self) -> QuorumSettings:
        return QuorumSettings(write_quorum=self.write_quorum, ack_quorum=self.ack_quorum)

    @property
    def tiering(self) -> TieringSettings:
        return TieringSettings(after_seconds=self.tier_after, local_seconds=self.tier_local)


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, in the order in which the help shows them. The command gets all of them as
    ``options``, a ``BrokerOptions``, after they are checked and logging is set up."""

    @wraps(command)  # keeps the options that it already has
    def with_options(*positional: Any, **named: Any) -> Any:
        given = {field.name: named.pop(field.name) for field in fields(BrokerOptions)}
        options = BrokerOptions(**given)
        start_logging(options.log_level)
        keep_files_private()
        if options.tls_key is not None and options.tls_cert is None:
            raise click.UsageError("--tls-key needs a --tls-cert")
        if options.tls_client_ca is not None and options.tls_cert is None:
            raise click.UsageError("--tls-client-ca needs a --tls-cert")
        check_quorum(options.write_quorum, options.ack_quorum)
        return command(*positional, options=options, **named)

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
            "--tls-client-ca",
            type=_FILE,
            help="Accept certificates of these authorities (PEM) in place of tokens, from clients "
            "of the binary port and of HTTP.",
        ),
        click.option(
            "--cache-mb",
            type=click.IntRange(min=1),
            default=256,
            show_default=True,
            help="Memory for recent messages, in MiB.",
        ),
        WRITE_QUORUM,
        ACK_QUORUM,
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
    decorated = security_options(with_options)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


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


_SERVERS: Final = {"etcd": "etcd", "storage": "storage nodes"}


def internal_tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets ``etcd_tls`` and ``storage_tls``: ``TlsFiles`` or None."""

    @wraps(command)  # keeps the options that it already has
    def with_files(*positional: Any, **named: Any) -> Any:
        for server in _SERVERS:
            ca, certificate, key = (named.pop(f"{server}_{part}") for part in ("ca", "cert", "key"))
            if key is not None and certificate is None:
                raise click.UsageError(f"--{server}-key needs a --{server}-cert")
            given = ca is not None or certificate is not None
            named[f"{server}_tls"] = TlsFiles(ca, certificate, key) if given else None
        return command(*positional, **named)

    decorated: Callable[..., Any] = with_files
    for server, words in reversed(_SERVERS.items()):
        for option in (
            _file(f"--{server}-key", "Private key of that certificate (PEM)."),
            _file(f"--{server}-cert", f"Client certificate for {words} (PEM)."),
            _file(f"--{server}-ca", f"Use TLS to {words}, and trust these CA certificates (PEM)."),
        ):
            decorated = option(decorated)
    return decorated


def _file(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Its existence is checked where it is read, with a more specific error.
    return click.option(name, type=click.Path(path_type=Path), metavar="FILE", help=text)
