"""A broker of a cluster: metadata in etcd, ledgers on storage nodes, topics shared with others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import sulina
from broker_containers.assembly.clustered_broker import (
    ClusteredBroker,
    ClusteredBrokerSettings,
    following_metadata,
    joined_cluster,
)
from broker_containers.assembly.running import RunningBroker, open_broker, storage_on
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.remote import RemoteNodes, RemoteSettings
from sulina.metadata.batching import BatchingStore
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_network import RealNetwork
from sulina.runtime.real_random import real_random
from sulina.runtime.tls_files import TlsFiles


@asynccontextmanager
async def run_in_cluster(
    settings: ClusteredBrokerSettings,
    etcd: EtcdSettings,
    places: Sequence[str],
    quorum: QuorumSettings,
    storage_tls: TlsFiles | None = None,
    peer_tls: TlsFiles | None = None,
    zone: str = "",
) -> AsyncIterator[RunningBroker]:
    """Run a broker of a cluster until left; its topics move to other brokers then.

    ``places`` are the storage nodes, ``name=host:port`` or ``name=host:port/zone`` each, contacted
    over TLS if ``storage_tls`` is given; those in ``zone`` are preferred for reads. ``peer_tls`` is
    for other brokers that use TLS. Raises ``Unavailable`` if etcd or an ack quorum of storage nodes
    can't be reached, ``Refused`` if a port or the broker's name is taken, or if the TLS files can't
    be used.
    """
    clock = RealClock()
    store = BatchingStore(await EtcdStore.open(etcd, clock))
    try:
        remote = RemoteSettings(tls=storage_tls, zone=zone)
        async with RemoteNodes(places, clock, real_random(), remote) as nodes:
            storage = await storage_on(nodes, store, clock, quorum)
            # Brokers are clients of each other, and authenticate with the root token.
            node: ClusteredBroker

            def token() -> str:
                return node.services.authority.own_token()

            trusted = None if peer_tls is None else peer_tls.context()
            connect = partial(sulina.connect, token=token, tls=trusted)
            network = RealNetwork(trusted)
            node = ClusteredBroker(settings, store, storage, clock, connect, network)
            async with cluster_broker(node) as running:
                yield running
    finally:
        await store.close()


@asynccontextmanager
async def cluster_broker(node: ClusteredBroker) -> AsyncIterator[RunningBroker]:
    """Open the doors of ``node`` and let it join the cluster, until left.

    Raises ``Refused`` if a port or the broker's name is taken.
    """
    async with (
        following_metadata(node),
        open_broker(node.services, node.settings.doors, node.storage, node.metrics()) as running,
    ):
        node.register_as(running.addresses)
        async with joined_cluster(node, running.binary, running.danube):
            yield running
            if running.http is not None:
                running.http.stop_soon()
