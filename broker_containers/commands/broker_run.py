"""``sulina broker run``: one broker of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from broker_containers.assembly.cluster import run_in_cluster
from broker_containers.assembly.clustered_broker import ClusteredBrokerSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.commands.broker_options import BrokerOptions, InternalTlsOptions
from broker_containers.commands.serving import serve_broker
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.options import group, option, options
from sulina.cli.settings import CliSettings
from sulina.metadata.etcd import EtcdSettings
from sulina.runtime.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class BrokerRunOptions:
    """The options, in the order in which the help shows them."""

    broker_id: str = option(
        None, "Name of the broker, unique in the cluster.", flag="--id", required=True
    )
    etcd: str = option(
        None,
        "URL of etcd: http://host:2379,host:2379, with https:// for TLS, and /prefix if shared.",
        metavar="URL",
        required=True,
    )
    storage_nodes: tuple[str, ...] = option(
        None,
        "A storage node, with its availability zone if it has one; repeat the option for each "
        "node. Copies are spread over zones.",
        flag="--storage-node",
        metavar="NAME=HOST:PORT[/ZONE]",
        multiple=True,
        required=True,
    )
    tls: InternalTlsOptions = group(InternalTlsOptions)
    broker: BrokerOptions = group(BrokerOptions)
    grpc_proxy: str = option(
        "",
        "URL at which Danube's clients reach all brokers, such as a load balancer's; brokers then "
        "forward calls to each other.",
        metavar="URL",
    )
    advertise: str = option(
        "",
        "URL at which clients and other brokers reach this broker. [default: the address it "
        "listens on]",
        metavar="URL",
    )
    zone: str = option(
        "",
        "Availability zone of this broker: it reads from storage nodes there first, and has the "
        "label zone=ZONE.",
        metavar="ZONE",
    )
    labels: tuple[str, ...] = option(
        (),
        "Label for affinity rules, for example zone=a; may be repeated.",
        flag="--label",
        multiple=True,
    )
    proxy: str = option(
        "",
        "URL at which clients reach all brokers, such as a load balancer's; brokers then forward "
        "connections to each other.",
        metavar="URL",
    )
    shared_name: str = option(
        "",
        "Name that leads to all brokers inside their network: clients that use it are sent to "
        "brokers themselves, in spite of --proxy; with TLS, the certificates of all brokers must "
        "be for it.",
        metavar="NAME",
    )
    peer_ca: Path | None = option(
        None,
        "Trust these CA certificates (PEM) for connections to other brokers. [default: the "
        "system's]",
        type=click.Path(path_type=Path),
        metavar="FILE",
    )
    lease_seconds: int = option(
        8,
        "Seconds after which a broker that does not renew its lease counts as dead.",
        type=click.IntRange(2, 300),
    )


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
@options(BrokerRunOptions)
def broker_run(settings: CliSettings, options: BrokerRunOptions) -> None:
    """Run one broker of a cluster.

    It stores nothing itself: metadata is in etcd, messages are on storage nodes. Ctrl-C or SIGTERM
    hands its topics to other brokers and then stops it; a second one stops it immediately. With
    --json it prints one line when it is ready.
    """
    given = options.broker
    given.begin(options.broker_id)
    etcd_tls, storage_tls = options.tls.etcd, options.tls.storage
    doors = given.doors(options.grpc_proxy, options.shared_name, options.peer_ca)
    used = [tls.certificate for tls in (etcd_tls, storage_tls) if tls is not None]
    node = ClusteredBrokerSettings(
        broker=BrokerSettings(
            broker_id=options.broker_id,
            cache_bytes=given.cache_mb << 20,
            tier=given.tiering,
            policy=given.policies,
            tables=given.tables(),
        ),
        doors=replace(doors, certificates=(*doors.certificates, *(each for each in used if each))),
        advertise=options.advertise,
        labels=(*options.labels, *([f"zone={options.zone}"] if options.zone else [])),
        cluster=ClusterSettings(
            lease_seconds=options.lease_seconds,
            proxy_url=options.proxy,
            shared_name=options.shared_name,
        ),
        auth=given.security.auth_settings(),
        audit=given.security.audit_settings(),
    )
    metadata = EtcdSettings.parse(options.etcd, tls=etcd_tls)
    peer_tls = None if options.peer_ca is None else TlsFiles(options.peer_ca)
    running = run_in_cluster(
        node, metadata, options.storage_nodes, given.quorum, storage_tls, peer_tls, options.zone
    )
    serve_broker(settings, Path.cwd(), node.doors.binary, running)
