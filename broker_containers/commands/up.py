"""``sulina up``: broker, storage and metadata in one process, with one data folder.

With ``--brokers``, ``--storage`` or ``--etcd`` it runs a cluster of processes instead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from broker_containers.assembly.single import run_embedded, run_on_storage_nodes
from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.commands.auth_options import auth_settings
from broker_containers.commands.broker_options import broker_options, check_quorum
from broker_containers.commands.listening import (
    ADMIN_PORT,
    GRPC_PORT,
    HTTP_PORT,
    danube_admin_listen,
    danube_listen,
    port_or_default,
    tls_context,
)
from broker_containers.commands.serving import serve_broker
from broker_containers.doors.listen import Listen
from broker_containers.local_cluster.ports import ClusterSize, ProcessOptions, RequestedPorts
from broker_containers.topics.tiering import TieringSettings
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.quorum.settings import QuorumSettings
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.settings import CliSettings
from sulina.errors import Refused

_RESERVE: Final = 32 << 20
_FOLDER: Final = ".sulina"
_CLUSTER_FOLDER: Final = ".sulina-cluster"
_SINGLE_PROCESS_ONLY: Final = (
    "storage_nodes",
    "broker_id",
    "http_cors",
    "no_auto_create",
    "grpc_advertise",
)
"""Options that a cluster does not support."""


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
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder for all data; created if necessary. "
    f"[default: {_FOLDER}, or {_CLUSTER_FOLDER} for a cluster]",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 99),
    help="Run a cluster with this many broker processes. [default in a cluster: 3]",
)
@click.option(
    "--storage",
    type=click.IntRange(1, 99),
    help="Run a cluster with this many storage nodes. [default in a cluster: 3]",
)
@click.option(
    "--etcd",
    type=click.Choice(["1", "3", "5", "7"]),
    help="Run a cluster with this many etcd members. [default in a cluster: 3]",
)
@broker_options
@click.option(
    "--http-cors",
    metavar="ORIGIN",
    multiple=True,
    help="Allow browsers on this web site to call the HTTP API, for example "
    "https://example.com; may be repeated.",
)
@click.option(
    "--journal-file-mb",
    type=click.IntRange(1, 16 << 10),
    default=256,
    show_default=True,
    help="Size of a journal file in MiB.",
)
@click.option(
    "--storage-node",
    "storage_nodes",
    metavar="NAME=HOST:PORT",
    multiple=True,
    help="Store messages on this storage node instead of locally; may be repeated.",
)
@click.option(
    "--tier",
    metavar="URL",
    help="Object store for closed ledgers, as Parquet: s3://bucket/prefix, file:///folder, "
    "gs://bucket/prefix or redis://host:port/0/prefix.",
)
@click.option("--broker-id", default="broker-1", show_default=True, help="Name of the broker.")
@click.option(
    "--no-auto-create",
    is_flag=True,
    help="Do not create topics automatically; use `sulina topic create`.",
)
@click.pass_obj
def up(
    settings: CliSettings,
    data: Path | None,
    brokers: int | None,
    storage: int | None,
    etcd: str | None,
    host: str,
    port: int,
    http_port: int | None,
    grpc_port: int | None,
    grpc_advertise: str,
    admin_port: int | None,
    http_cors: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    auth: Path | None,
    auth_jwt_key: Path | None,
    cache_mb: int,
    journal_file_mb: int,
    storage_nodes: tuple[str, ...],
    write_quorum: int,
    ack_quorum: int,
    tier: str | None,
    tier_after: float,
    tier_local: float,
    broker_id: str,
    no_auto_create: bool,
    log_level: str,
) -> None:
    """Run Sulina in one process, or a cluster of processes on this machine.

    All data is in one folder and survives restarts. Ctrl-C or SIGTERM stops it cleanly; a second
    one stops it immediately, without losing acknowledged messages. With --json it prints one line
    when it is ready: {"event": "ready", "url": ..., "port": ..., "http_url": ..., "pid": ...}.

    The brokers of a cluster listen on --port and the ports after it. A process that ends
    unexpectedly is restarted.
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key needs a --tls-cert")
    check_quorum(write_quorum, ack_quorum)
    security = auth_settings(auth, auth_jwt_key)  # creates the file, for all brokers of a cluster
    clustered = any(count is not None for count in (brokers, storage, etcd))
    if data is None:
        data = Path(_CLUSTER_FOLDER if clustered else _FOLDER)
    _check_folder(data)
    http_port = port_or_default(http_port, port, HTTP_PORT)
    if clustered:
        try:
            import broker_containers.commands.broker_run  # noqa: F401  # which the processes load
            from broker_containers.commands.cluster_up import run_cluster
        except ModuleNotFoundError as error:
            raise Refused(
                f"`sulina up --brokers` needs the package {error.name}: "
                "pip install 'sulina[all-in-one]'"
            ) from None
        _refuse(_SINGLE_PROCESS_ONLY)
        size = ClusterSize(brokers or 3, storage or 3, int(etcd or 3))
        # There can't be more copies than storage nodes.
        write_quorum = min(write_quorum, size.storage)
        files = {
            "--tls-cert": tls_cert,
            "--tls-key": tls_key,
            "--auth": None if auth is None else str(auth.absolute()),
            "--auth-jwt-key": None if auth_jwt_key is None else str(auth_jwt_key.absolute()),
        }
        log = ("--log-level", log_level)
        options = ProcessOptions(
            host,
            write_quorum,
            min(max(ack_quorum, write_quorum // 2 + 1), write_quorum),
            broker=(
                *log,
                *("--cache-mb", str(cache_mb)),
                *("--tier-after", str(tier_after), "--tier-local", str(tier_local)),
                *(word for flag, file in files.items() if file for word in (flag, file)),
            ),
            storage=(
                *log,
                *("--journal-file-mb", str(journal_file_mb)),
                *(("--tier", tier) if tier else ()),
            ),
        )
        admin_port = port_or_default(admin_port, port, ADMIN_PORT)
        grpc_port = port_or_default(grpc_port, port, GRPC_PORT)
        requested = RequestedPorts(host, port, http_port, admin_port, grpc_port)
        run_cluster(settings, data, size, requested, options)
        return
    tls = None if tls_cert is None else tls_context(tls_cert, tls_key)
    listen = Listen(host, port, tls)
    http = Listen(host, http_port, tls)
    danube_admin = danube_admin_listen(host, port, admin_port, tls_cert, tls_key)
    danube = danube_listen(host, port, grpc_port, tls_cert, tls_key, grpc_advertise)
    broker = BrokerSettings(
        broker_id=broker_id,
        cache_bytes=cache_mb << 20,
        auto_create_topics=not no_auto_create,
        tier=TieringSettings(after_seconds=tier_after, local_seconds=tier_local),
        http=HttpSettings(cors_origins=http_cors),
    )
    if storage_nodes:
        if tier:
            raise click.UsageError("--tier applies to the storage nodes: start them with it")
        copies = QuorumSettings(write_quorum=write_quorum, ack_quorum=ack_quorum)
        running = run_on_storage_nodes(
            data, listen, storage_nodes, broker, copies, http, danube_admin, danube, security
        )
    else:
        file_bytes = journal_file_mb << 20
        journal = JournalSettings(file_bytes=file_bytes, reserve_bytes=min(_RESERVE, file_bytes))
        running = run_embedded(
            data, listen, broker, journal, http, danube_admin, danube, security, tier
        )
    serve_broker(settings, data, listen, running)


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
