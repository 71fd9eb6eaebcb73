"""Options of the commands that run a broker, and for TLS within a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.assembly.running import DoorSettings
from broker_containers.broker.settings import PolicySettings, TablesSettings
from broker_containers.commands.auth_options import SecurityOptions
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
from broker_containers.settings.setting_list import SETTINGS
from broker_containers.topics.tiering import TieringSettings
from storage_grpc.quorum.settings import QuorumSettings
from sulina.cli.options import group, option
from sulina.cli.params import limit
from sulina.runtime.logs import FORMATS, TEXT, start_logging
from sulina.runtime.machine import keep_files_private
from sulina.runtime.tls_files import TlsFiles
from sulina.runtime.traces import start_tracing

LEVELS: Final = ("debug", "info", "warning", "error")
_PORT: Final = click.IntRange(0, 65535)
_FILE: Final = click.Path(exists=True, dir_okay=False)
# Its existence is checked where it is read, with a more specific error.
_PEM: Final[Any] = {"type": click.Path(path_type=Path), "metavar": "FILE"}


def _port_option(what: str, default: int) -> Any:
    text = f"Port for {what}; 0 picks a free one. [default: {default}, or a free one with --port 0]"
    return option(None, text, type=_PORT)


def write_quorum_option() -> Any:
    """How many copies a message has."""
    text = "Number of storage nodes that store each message."
    return option(3, text, type=click.IntRange(min=1))


def ack_quorum_option() -> Any:
    """How many of them count before it is acknowledged."""
    text = "Number of them that must have stored a message before it is acknowledged."
    return option(2, text, type=click.IntRange(min=1))


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of the commands that run a broker, in the order in which the help shows them."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(6655, "Port for Sulina clients; 0 picks a free one.", type=_PORT)
    http_port: int | None = _port_option("HTTP: administration, health and metrics", HTTP_PORT)
    grpc_port: int | None = _port_option("Danube's clients (gRPC)", GRPC_PORT)
    grpc_advertise: str = option(
        "",
        "URL at which Danube's clients reach it, such as http://host:6650. "
        "[default: the address it listens on]",
        metavar="URL",
    )
    admin_port: int | None = _port_option("Danube's admin tools (gRPC)", ADMIN_PORT)
    tls_cert: str | None = option(None, "Serve TLS with this certificate chain (PEM).", type=_FILE)
    tls_key: str | None = option(None, "Private key of the certificate (PEM).", type=_FILE)
    tls_client_ca: str | None = option(
        None,
        "Accept certificates of these authorities (PEM) in place of tokens, from clients of the "
        "binary port and of HTTP.",
        type=_FILE,
    )
    cache_mb: int = option(256, "Memory for recent messages, in MiB.", type=click.IntRange(min=1))
    write_quorum: int = write_quorum_option()
    ack_quorum: int = ack_quorum_option()
    tier_after: float = option(
        900.0,
        "With --tier, maximum age of messages before they are copied to the object store.",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
    )
    tier_local: float = option(
        300.0,
        "With --tier, how long messages stay on storage nodes after that.",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
    )
    policy: tuple[str, ...] = option(
        (),
        "Value of a policy, such as retention_ms=7d, for topics for which neither they nor their "
        "namespace nor `sulina config set policy.NAME` set one; may be repeated.",
        metavar="NAME=VALUE",
        multiple=True,
    )
    catalog: str = option(
        "",
        "Catalog of the topics' Iceberg tables, to show them over HTTP and as metrics: "
        "sqlite:///folder/catalog.db, glue:region, or the URL of a REST catalog.",
        metavar="URL",
    )
    catalog_database: str = option("sulina", "Database (namespace) of the catalog.")
    lake: str = option(
        "",
        "With --catalog, what --tier of the storage nodes is: a folder, or s3://bucket/prefix.",
        metavar="URL",
    )
    log_level: str = option("warning", "Log level for standard error.", type=click.Choice(LEVELS))
    log_format: str = option(
        TEXT, "Log lines of text, or of JSON for programs.", type=click.Choice(FORMATS)
    )
    security: SecurityOptions = group(SecurityOptions)

    def begin(self, broker_id: str) -> None:
        """Check the options and set up logging, before anything else is done."""
        start_logging(self.log_level, self.log_format, broker=broker_id)
        start_tracing("sulina-broker", broker_id)
        keep_files_private()
        if self.tls_key is not None and self.tls_cert is None:
            raise click.UsageError("--tls-key needs a --tls-cert")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise click.UsageError("--tls-client-ca needs a --tls-cert")
        check_quorum(self.write_quorum, self.ack_quorum)

    def port_for(self, wanted: int | None, default: int) -> int:
        """The port of a door, for its option and its default."""
        return port_or_default(wanted, self.port, default)

    def doors(
        self, grpc_proxy: str = "", shared_name: str = "", peer_ca: Path | None = None
    ) -> DoorSettings:
        """Where to listen. Raises ``Refused`` for files and URLs that can't be used."""
        host, port = self.host, self.port
        tls = grpc_tls = None
        if self.tls_cert is not None:
            files = self.tls_cert, self.tls_key, self.tls_client_ca
            tls, grpc_tls = tls_context(*files), tls_context(*files, http2=True)
        return DoorSettings(
            Listen(host, port, tls),
            Listen(host, self.port_for(self.http_port, HTTP_PORT), tls),
            danube_admin_listen(host, port, self.admin_port, grpc_tls),
            danube_listen(
                host,
                port,
                self.grpc_port,
                grpc_tls,
                self.grpc_advertise,
                grpc_proxy,
                shared_name,
                peer_ca,
            ),
            () if self.tls_cert is None else (Path(self.tls_cert),),
        )

    @property
    def quorum(self) -> QuorumSettings:
        return QuorumSettings(write_quorum=self.write_quorum, ack_quorum=self.ack_quorum)

    def tables(self, tier: str | None = None) -> TablesSettings:
        """Where the tables of topics are; ``tier`` is the lake unless --lake is given."""
        lake = self.lake or tier or ""
        if self.catalog and not lake:
            raise click.UsageError("--catalog needs --lake, which the tables' files are in")
        return TablesSettings(self.catalog, lake, self.catalog_database)

    @property
    def policies(self) -> PolicySettings:
        """What holds for topics unless somebody sets something else."""
        return parse_policies(self.policy)

    @property
    def tiering(self) -> TieringSettings:
        return TieringSettings(after_seconds=self.tier_after, local_seconds=self.tier_local)


def parse_policies(given: Iterable[str]) -> PolicySettings:
    """Policies as NAME=VALUE. Raises ``UsageError`` or ``Refused`` for wrong ones."""
    known = {each.name: SETTINGS[f"policy.{each.name}"] for each in fields(PolicySettings)}
    values = {}
    for name, value in map(limit, given):
        if name not in known:
            raise click.UsageError(
                f"--policy: there is no policy {name!r}: choose from {', '.join(known)}"
            )
        if value is not None:
            values[name] = known[name].parse(value)
    return PolicySettings(**values)


def check_quorum(write_quorum: int, ack_quorum: int) -> None:
    """Raise ``UsageError`` for ack quorums that would not overlap."""
    if not write_quorum >= ack_quorum > write_quorum / 2:
        raise click.UsageError(
            "--ack-quorum must be more than half of --write-quorum, and not exceed it"
        )


@dataclass(frozen=True, slots=True)
class InternalTlsOptions:
    """TLS within a cluster."""

    etcd_ca: Path | None = option(
        None, "Use TLS to etcd, and trust these CA certificates (PEM).", **_PEM
    )
    etcd_cert: Path | None = option(None, "Client certificate for etcd (PEM).", **_PEM)
    etcd_key: Path | None = option(None, "Private key of that certificate (PEM).", **_PEM)
    storage_ca: Path | None = option(
        None, "Use TLS to storage nodes, and trust these CA certificates (PEM).", **_PEM
    )
    storage_cert: Path | None = option(None, "Client certificate for storage nodes (PEM).", **_PEM)
    storage_key: Path | None = option(None, "Private key of that certificate (PEM).", **_PEM)

    @property
    def etcd(self) -> TlsFiles | None:
        """The files for etcd; None without TLS."""
        return _tls_files("etcd", self.etcd_ca, self.etcd_cert, self.etcd_key)

    @property
    def storage(self) -> TlsFiles | None:
        """The files for storage nodes; None without TLS."""
        return _tls_files("storage", self.storage_ca, self.storage_cert, self.storage_key)


def _tls_files(
    server: str, ca: Path | None, certificate: Path | None, key: Path | None
) -> TlsFiles | None:
    if key is not None and certificate is None:
        raise click.UsageError(f"--{server}-key needs a --{server}-cert")
    return None if ca is None and certificate is None else TlsFiles(ca, certificate, key)
