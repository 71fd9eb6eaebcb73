"""``sulina broker run``: one broker of a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from broker_containers.assembly.cluster import run_in_cluster
from broker_containers.assembly.clustered_broker import ClusteredBrokerSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.commands.broker_options import (
    BrokerOptions,
    broker_options,
    internal_tls_options,
)
from broker_containers.commands.serving import serve_broker
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
    options: BrokerOptions,
    grpc_proxy: str,
    advertise: str,
    proxy: str,
    labels: tuple[str, ...],
    lease_seconds: int,
) -> None:
    """Run one broker of a cluster.

    It stores nothing itself: metadata is in etcd, messages are on storage nodes. Ctrl-C or SIGTERM
    hands its topics to other brokers and then stops it; a second one stops it immediately. With
    --json it prints one line when it is ready.
    """
    doors = options.doors(grpc_proxy)
    used = [tls.certificate for tls in (etcd_tls, storage_tls) if tls is not None]
    node = ClusteredBrokerSettings(
        broker=BrokerSettings(
            broker_id=broker_id, cache_bytes=options.cache_mb << 20, tier=options.tiering
        ),
        doors=replace(doors, certificates=(*doors.certificates, *(each for each in used if each))),
        advertise=advertise,
        labels=labels,
        cluster=ClusterSettings(lease_seconds=lease_seconds, proxy_url=proxy),
        auth=options.security.auth_settings(),
        audit=options.security.audit_settings(),
    )
    metadata = EtcdSettings.parse(etcd, tls=etcd_tls)
    running = run_in_cluster(node, metadata, storage_nodes, options.quorum, storage_tls)
    serve_broker(settings, Path.cwd(), node.doors.binary, running)
