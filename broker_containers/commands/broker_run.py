"""``sulina broker run``: one broker of a cluster."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from broker_containers.assembly.cluster import run_in_cluster
from broker_containers.assembly.clustered_broker import ClusteredBrokerSettings
from broker_containers.assembly.running import DoorSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.commands.auth_options import auth_settings
from broker_containers.commands.broker_options import broker_options, check_quorum
from broker_containers.commands.listening import (
    HTTP_PORT,
    danube_admin_listen,
    danube_listen,
    port_or_default,
    tls_context,
)
from broker_containers.commands.serving import serve_broker
from broker_containers.commands.tls_options import internal_tls_options
from broker_containers.doors.listen import Listen
from broker_containers.topics.tiering import TieringSettings
from storage_grpc.quorum.settings import QuorumSettings
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.settings import CliSettings
from sulina.metadata.etcd import EtcdSettings
from sulina.runtime.tls_files import TlsFiles


@click.command(
    "run",
    cls=CliCommand,
    common=JSON_ONLY,
    examples=[
        "sulina broker run --id broker-1 --etcd http://10.0.0.1:2379,10.0.0.2:2379 "
        "--storage-node a=10.0.1.1:6660 --storage-node b=10.0.1.2:6660 "
        "--storage-node c=10.0.1.3:6660 --host 0.0.0.0 --advertise sulina://10.0.2.1:6655",
    ],
)
@click.option("--id", "broker_id", required=True, help="Name of the broker, unique in the cluster.")
@click.option(
    "--etcd",
    metavar="URL",
    required=True,
    help="URL of etcd: http://host:2379,host:2379, with https:// for TLS, and /prefix if shared.",
)
@click.option(
    "--storage-node",
    "storage_nodes",
    metavar="NAME=HOST:PORT",
    multiple=True,
    required=True,
    help="A storage node; repeat the option for each node.",
)
@internal_tls_options
@broker_options
@click.option(
    "--grpc-proxy",
    metavar="URL",
    default="",
    help="URL at which Danube's clients reach all brokers, such as a load balancer's; brokers then "
    "forward calls to each other.",
)
@click.option(
    "--advertise",
    metavar="URL",
    default="",
    help="URL at which clients and other brokers reach this broker. [default: the address it "
    "listens on]",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    help="Label for affinity rules, for example zone=a; may be repeated.",
)
@click.option(
    "--proxy",
    metavar="URL",
    default="",
    help="URL at which clients reach all brokers, such as a load balancer's; brokers then forward "
    "connections to each other.",
)
@click.option(
    "--lease-seconds",
    type=click.IntRange(2, 300),
    default=8,
    show_default=True,
    help="Seconds after which a broker that does not renew its lease counts as dead.",
)
@click.pass_obj
def broker_run(
    settings: CliSettings,
    broker_id: str,
    etcd: str,
    storage_nodes: tuple[str, ...],
    etcd_tls: TlsFiles | None,
    storage_tls: TlsFiles | None,
    host: str,
    port: int,
    http_port: int | None,
    grpc_port: int | None,
    grpc_advertise: str,
    grpc_proxy: str,
    admin_port: int | None,
    advertise: str,
    proxy: str,
    labels: tuple[str, ...],
    write_quorum: int,
    ack_quorum: int,
    lease_seconds: int,
    cache_mb: int,
    tls_cert: str | None,
    tls_key: str | None,
    tier_after: float,
    tier_local: float,
    auth: Path | None,
    auth_jwt_key: Path | None,
    log_level: str,
) -> None:
    """Run one broker of a cluster.

    It stores nothing itself: metadata is in etcd, messages are on storage nodes. Ctrl-C or SIGTERM
    hands its topics to other brokers and then stops it; a second one stops it immediately. With
    --json it prints one line when it is ready.
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    check_quorum(write_quorum, ack_quorum)
    tls = None if tls_cert is None else tls_context(tls_cert, tls_key)
    security = auth_settings(auth, auth_jwt_key)
    listen = Listen(host, port, tls)
    doors = DoorSettings(
        listen,
        Listen(host, port_or_default(http_port, port, HTTP_PORT), tls),
        danube_admin_listen(host, port, admin_port, tls_cert, tls_key),
        danube_listen(
            host, port, grpc_port, tls_cert, tls_key, grpc_advertise, proxy_url=grpc_proxy
        ),
    )
    node = ClusteredBrokerSettings(
        broker=BrokerSettings(
            broker_id=broker_id,
            cache_bytes=cache_mb << 20,
            tier=TieringSettings(after_seconds=tier_after, local_seconds=tier_local),
        ),
        doors=doors,
        advertise=advertise,
        labels=labels,
        cluster=ClusterSettings(lease_seconds=lease_seconds, proxy_url=proxy),
        auth=security,
    )
    copies = QuorumSettings(write_quorum=write_quorum, ack_quorum=ack_quorum)
    metadata = EtcdSettings.parse(etcd, tls=etcd_tls)
    running = run_in_cluster(node, metadata, storage_nodes, copies, storage_tls)
    serve_broker(settings, Path.cwd(), listen, running)
