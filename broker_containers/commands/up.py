"""``sulina up``: broker, storage and metadata in one process, with one data folder.

With ``--brokers``, ``--storage`` or ``--etcd`` it runs a cluster of processes instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from broker_containers.assembly.single import run_embedded, run_on_storage_nodes
from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.commands.broker_options import BrokerOptions
from broker_containers.commands.listening import ADMIN_PORT, GRPC_PORT, HTTP_PORT
from broker_containers.commands.serving import serve_broker
from broker_containers.local_cluster.ports import ClusterSize, ProcessOptions, RequestedPorts
from storage_grpc.journal.settings import JournalSettings
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.options import group, option, options
from sulina.cli.output import echo
from sulina.cli.settings import CliSettings
from sulina.errors import Refused
from sulina.runtime.machine import warning_of_readable

_RESERVE: Final = 32 << 20
_FOLDER: Final = ".sulina"
_CLUSTER_FOLDER: Final = ".sulina-cluster"
_SINGLE_PROCESS_ONLY: Final = (
    "storage_nodes",
    "broker_id",
    "http_cors",
    "http_host",
    "no_auto_create",
    "grpc_advertise",
)
"""Options that a cluster does not support."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options, in the order in which the help shows them."""

    data: Path | None = option(
        None,
        "Folder for all data; created if necessary. "
        f"[default: {_FOLDER}, or {_CLUSTER_FOLDER} for a cluster]",
        type=click.Path(path_type=Path),
    )
    brokers: int | None = option(
        None,
        "Run a cluster with this many broker processes. [default in a cluster: 3]",
        type=click.IntRange(1, 99),
    )
    storage: int | None = option(
        None,
        "Run a cluster with this many storage nodes. [default in a cluster: 3]",
        type=click.IntRange(1, 99),
    )
    etcd: str | None = option(
        None,
        "Run a cluster with this many etcd members. [default in a cluster: 3]",
        type=click.Choice(["1", "3", "5", "7"]),
    )
    broker: BrokerOptions = group(BrokerOptions)
    grpc_redirect: bool = option(
        False,
        "In a cluster, send Danube's clients to each broker at its own address, instead of giving "
        "them --grpc-port as the one address of all brokers.",
    )
    http_cors: tuple[str, ...] = option(
        (),
        "Allow browsers on this web site to call the HTTP API, for example https://example.com; "
        "may be repeated.",
        metavar="ORIGIN",
        multiple=True,
    )
    http_host: tuple[str, ...] = option(
        (),
        "Accept HTTP requests for this host name without a token, besides localhost and IP "
        "addresses; may be repeated.",
        metavar="NAME",
        multiple=True,
    )
    journal_file_mb: int = option(
        256, "Size of a journal file in MiB.", type=click.IntRange(1, 16 << 10)
    )
    storage_nodes: tuple[str, ...] = option(
        (),
        "Store messages on this storage node instead of locally; may be repeated.",
        flag="--storage-node",
        metavar="NAME=HOST:PORT",
        multiple=True,
    )
    tier: str | None = option(
        None,
        "Object store for closed ledgers, as Parquet: s3://bucket/prefix, file:///folder, "
        "gs://bucket/prefix, az://account/container/prefix, redis://host:port/0/prefix or "
        "tikv://pd1:2379,pd2:2379/prefix.",
        metavar="URL",
    )
    broker_id: str = option("broker-1", "Name of the broker.")
    no_auto_create: bool = option(
        False, "Do not create topics automatically; use `sulina topic create`."
    )


@click.command(
    cls=CliCommand,
    common=JSON_ONLY,
    examples=[
        "sulina up",
        "sulina up --data /var/lib/sulina --host 0.0.0.0",
        "sulina up --port 0 --json",
        "sulina up --brokers 3 --storage 3 --etcd 3",
        "sulina up --tier s3://my-bucket/sulina --tier-after 600",
        "sulina up --tls-cert broker.pem --tls-key broker.key",
        "sulina up --storage-node a=10.0.0.1:6660 --storage-node b=10.0.0.2:6660 "
        "--storage-node c=10.0.0.3:6660",
    ],
)
@options(UpOptions)
def up(settings: CliSettings, options: UpOptions) -> None:
    """Run Sulina in one process, or a cluster of processes on this machine.

    All data is in one folder and survives restarts. Ctrl-C or SIGTERM stops it cleanly; a second
    one stops it immediately, without losing acknowledged messages. With --json it prints one line
    when it is ready: {"event": "ready", "url": ..., "port": ..., "http_url": ..., "pid": ...}.

    The brokers of a cluster listen on --port and the ports after it. Danube's clients reach all of
    them through --grpc-port. A process that ends unexpectedly is restarted.
    """
    given = options.broker
    given.begin(options.broker_id)
    # Creates the file, for all brokers of a cluster.
    auth = given.security.auth_settings()
    audit = given.security.audit_settings()
    clustered = any(count is not None for count in (options.brokers, options.storage, options.etcd))
    data = options.data or Path(_CLUSTER_FOLDER if clustered else _FOLDER)
    _check_folder(data)
    readable = warning_of_readable(data)
    if readable is not None:
        echo(f"security: {readable}", err=True)
    if clustered:
        _run_cluster(settings, options, data)
        return
    if options.grpc_redirect:
        raise click.UsageError("--grpc-redirect is for a cluster: add --brokers")
    doors = given.doors()
    broker = BrokerSettings(
        broker_id=options.broker_id,
        cache_bytes=given.cache_mb << 20,
        auto_create_topics=not options.no_auto_create,
        tier=given.tiering,
        policy=given.policies,
        http=HttpSettings(cors_origins=options.http_cors, allowed_hosts=options.http_host),
        tables=given.tables(options.tier),
    )
    if options.storage_nodes:
        if options.tier:
            raise click.UsageError("--tier applies to the storage nodes: start them with it")
        running = run_on_storage_nodes(
            data, doors, options.storage_nodes, broker, given.quorum, auth, audit
        )
    else:
        file_bytes = options.journal_file_mb << 20
        journal = JournalSettings(file_bytes=file_bytes, reserve_bytes=min(_RESERVE, file_bytes))
        running = run_embedded(data, doors, broker, journal, auth, options.tier, audit)
    serve_broker(settings, data, doors.binary, running)


def _run_cluster(settings: CliSettings, options: UpOptions, data: Path) -> None:
    try:
        import broker_containers.commands.broker_run  # noqa: F401  # which the processes load
        from broker_containers.commands.cluster_up import run_cluster
    except ModuleNotFoundError as error:
        raise Refused(
            f"`sulina up --brokers` needs the package {error.name}: "
            "pip install 'sulina[all-in-one]'"
        ) from None
    _refuse(_SINGLE_PROCESS_ONLY)
    given, tier = options.broker, options.tier
    size = ClusterSize(options.brokers or 3, options.storage or 3, int(options.etcd or 3))
    file_mb = ("--journal-file-mb", str(options.journal_file_mb))
    requested = RequestedPorts(
        given.host,
        given.port,
        given.port_for(given.http_port, HTTP_PORT),
        given.port_for(given.admin_port, ADMIN_PORT),
        given.port_for(given.grpc_port, GRPC_PORT),
        grpc_shared=not options.grpc_redirect,
    )
    processes = _process_options(given, size, file_mb, tier)
    run_cluster(settings, data, size, requested, processes)


def _process_options(
    options: BrokerOptions, size: ClusterSize, file_mb: Sequence[str], tier: str | None
) -> ProcessOptions:
    """``file_mb`` and ``tier`` are options of the storage nodes."""
    _ = options.policies  # wrong ones are refused here, not by each broker
    # There can't be more copies than storage nodes.
    write_quorum = min(options.write_quorum, size.storage)
    tables = options.tables(tier)
    flags = {
        "--catalog": tables.catalog,
        "--catalog-database": tables.database,
        "--lake": tables.lake if tables.catalog else "",
        "--cache-mb": str(options.cache_mb),
        "--tier-after": str(options.tier_after),
        "--tier-local": str(options.tier_local),
        "--tls-cert": options.tls_cert,
        "--tls-key": options.tls_key,
        "--tls-client-ca": options.tls_client_ca,
    }
    log = ("--log-level", options.log_level, "--log-format", options.log_format)
    return ProcessOptions(
        options.host,
        write_quorum,
        min(max(options.ack_quorum, write_quorum // 2 + 1), write_quorum),
        broker=(
            *log,
            *(word for flag, value in flags.items() if value for word in (flag, value)),
            *(word for each in options.policy for word in ("--policy", each)),
            *options.security.arguments(),
        ),
        storage=(*log, *file_mb, *(("--tier", tier) if tier else ())),
    )


def _refuse(names: Iterable[str]) -> None:
    """Raise a usage error if one of these options was given."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and (
            context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
        ):
            raise click.UsageError(f"{parameter.opts[0]} can't be used with a cluster (--brokers)")


def _check_folder(data: Path) -> None:
    existing = next(path for path in (data, *data.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise Refused(f"{existing} is a file: choose a folder with --data")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Refused(f"{existing} is not writable: choose another folder with --data")
