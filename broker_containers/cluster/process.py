"""One broker of a cluster as a process: etcd, storage nodes, and all its doors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import sulina
from broker_containers.cluster.node import NodeSettings, cluster_node, serving
from broker_containers.doors.danube.serving import serve_danube
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin.serving import serve_danube_admin
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.http.serving import serve_http
from broker_containers.doors.schema_gates import schema_gates
from broker_containers.server import BinaryServer, Listen
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.remote import RemoteNodes, RemoteSettings
from storage_grpc.tier.remote import RemoteTier
from sulina.metadata.batching import BatchingStore
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_network import RealNetwork
from sulina.runtime.real_random import real_random
from sulina.runtime.tls_files import TlsFiles

_NODES_SECONDS = 15.0
"""How long a start waits for enough storage nodes."""


@asynccontextmanager
async def run_in_cluster(
    settings: NodeSettings,
    etcd: EtcdSettings,
    places: Sequence[str],
    quorum: QuorumSettings,
    http: Listen | None,
    danube_admin: AdminListen | None = None,
    danube: DanubeListen | None = None,
    storage_tls: TlsFiles | None = None,
) -> AsyncIterator[BinaryServer]:
    """Run a broker until left; its topics go to others then.

    ``places`` are the storage nodes, ``name=host:port`` each; with ``storage_tls`` they are talked
    to over TLS. Raises ``Unavailable`` if etcd or an ack quorum of storage nodes can't be reached,
    ``Refused`` if a port or the name is taken, or TLS files can't be used.
    """
    clock = RealClock()
    store = BatchingStore(await EtcdStore.open(etcd, clock))
    try:
        remote = RemoteSettings(tls=storage_tls)
        async with RemoteNodes(places, clock, real_random(), remote) as nodes:
            who = "an ack quorum of storage nodes"
            await nodes.ready_within(_NODES_SECONDS, quorum.ack_quorum, who)
            ledgers = QuorumLedgers(nodes, store, clock, quorum)
            tier = RemoteTier(nodes, store, clock)
            # Brokers are each other's clients, and show the root token.
            root = "" if settings.auth is None else settings.auth.root
            connect = partial(sulina.connect, token=root)
            async with (
                cluster_node(settings, store, ledgers, clock, connect, RealNetwork(), tier) as node,
                AsyncExitStack() as doors,
            ):
                server = node.server
                await doors.enter_async_context(schema_gates(node.broker, server))
                if http is not None:
                    await doors.enter_async_context(
                        serve_http(node.broker, server, http, (nodes, quorum), node.metrics())
                    )
                if danube_admin is not None:
                    await doors.enter_async_context(
                        serve_danube_admin(node.broker, server, danube_admin)
                    )
                grpc_url = ""
                if danube is not None:
                    clients = serve_danube(node.broker, server, danube)
                    grpc_url = (await doors.enter_async_context(clients)).url
                node.register_as(server.http_url, server.danube_admin_url, grpc_url)
                async with serving(node, settings):
                    yield server
    finally:
        await store.close()
