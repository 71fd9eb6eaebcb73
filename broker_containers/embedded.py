"""A broker with its metadata in one process, over its own journal or over storage nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from pathlib import Path

from broker_containers.alone import Alone
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.schema_gates import schema_gates
from broker_containers.security.authority import Authority
from broker_containers.security.settings import AuthSettings
from broker_containers.server import BinaryServer, Listen
from broker_containers.settings.apply import single_broker_config
from broker_containers.topic_log.orphans import delete_orphans
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.tier.opening import open_tier
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random

_NODES_SECONDS = 15.0
"""How long a start waits for enough storage nodes."""


@asynccontextmanager
async def run_embedded(
    folder: Path,
    listen: Listen,
    settings: BrokerSettings | None = None,
    journal: JournalSettings | None = None,
    http: Listen | None = None,
    danube_admin: AdminListen | None = None,
    danube: DanubeListen | None = None,
    auth: AuthSettings | None = None,
    tier: str | None = None,
) -> AsyncIterator[BinaryServer]:
    """A whole cluster in one process: open or create the data under ``folder`` and serve it.

    ``http``, ``danube_admin`` and ``danube`` are where those doors listen; without them there are
    none. With ``auth`` clients are asked for tokens. On leaving, clients are told, cursors are
    stored and everything is closed cleanly. Raises ``Refused`` if another process uses the folder
    or a port.
    """
    async with _metadata(folder) as store, _disk(folder / "journal") as disk:
        clock = RealClock()
        entries = await JournalStore.open(disk, clock, journal or JournalSettings(), real_random())
        ledgers, tiers = EmbeddedLedgers(entries), AsyncExitStack()
        try:
            await delete_orphans(entries, store)
            cold = None
            if tier:
                cold = await tiers.enter_async_context(
                    open_tier(tier, ledgers, clock, real_random())
                )
            broker = Broker(ledgers, store, clock, settings or BrokerSettings(), tier=cold)
            authority = Authority(store, clock, auth)
            server = BinaryServer(broker, listen, authority=authority)
            async with schema_gates(broker, server), server, broker:
                server.recovery = entries.recovery
                server.admin.offer(Alone(broker, server).methods())
                async with (
                    single_broker_config(broker, server.admin),
                    _http_door(broker, server, http, entries),
                    _danube_admin_door(broker, server, danube_admin),
                    _danube_door(broker, server, danube),
                ):
                    yield server
                    server.stop_listening()
        finally:
            await tiers.aclose()
            await entries.close()


@asynccontextmanager
async def run_on_storage_nodes(
    folder: Path,
    listen: Listen,
    places: Sequence[str],
    settings: BrokerSettings | None = None,
    quorum: QuorumSettings | None = None,
    http: Listen | None = None,
    danube_admin: AdminListen | None = None,
    danube: DanubeListen | None = None,
    auth: AuthSettings | None = None,
) -> AsyncIterator[BinaryServer]:
    """A broker whose ledgers are on storage nodes (``name=host:port`` each), replicated.

    Its metadata is under ``folder``. Waits for as many nodes as the ack quorum; raises
    ``Unavailable`` if they do not come. Otherwise as ``run_embedded``.
    """
    # gRPC takes a while to load, and only this needs it.
    from storage_grpc.remote import RemoteNodes
    from storage_grpc.tier.remote import RemoteTier

    copies = quorum or QuorumSettings()
    clock = RealClock()
    async with _metadata(folder) as store, RemoteNodes(places, clock, real_random()) as nodes:
        who = "an ack quorum of storage nodes"
        await nodes.ready_within(_NODES_SECONDS, copies.ack_quorum, who)
        ledgers = QuorumLedgers(nodes, store, clock, copies)
        tier = RemoteTier(nodes, store, clock)
        broker = Broker(ledgers, store, clock, settings or BrokerSettings(), tier=tier)
        server = BinaryServer(broker, listen, authority=Authority(store, clock, auth))
        async with (
            schema_gates(broker, server),
            server,
            broker,
            single_broker_config(broker, server.admin),
            _http_door(broker, server, http, (nodes, copies)),
            _danube_admin_door(broker, server, danube_admin),
            _danube_door(broker, server, danube),
        ):
            server.admin.offer(Alone(broker, server).methods())
            yield server
            server.stop_listening()


def _http_door(
    broker: Broker,
    binary: BinaryServer,
    listen: Listen | None,
    storage: JournalStore | tuple[Nodes, QuorumSettings],
) -> AbstractAsyncContextManager[object]:
    if listen is None:
        return nullcontext()
    # The HTTP library takes a while to load, and not everybody wants this door.
    from broker_containers.doors.http.serving import serve_http

    return serve_http(broker, binary, listen, storage)


def _danube_admin_door(
    broker: Broker, binary: BinaryServer, listen: AdminListen | None
) -> AbstractAsyncContextManager[object]:
    if listen is None:
        return nullcontext()
    # gRPC takes a while to load, and not everybody wants this door.
    from broker_containers.doors.danube_admin.serving import serve_danube_admin

    return serve_danube_admin(broker, binary, listen)


def _danube_door(
    broker: Broker, binary: BinaryServer, listen: DanubeListen | None
) -> AbstractAsyncContextManager[object]:
    if listen is None:
        return nullcontext()
    from broker_containers.doors.danube.serving import serve_danube

    return serve_danube(broker, binary, listen)


@asynccontextmanager
async def _metadata(folder: Path) -> AsyncIterator[EmbeddedStore]:
    async with _disk(folder / "metadata") as disk:
        store = await EmbeddedStore.open(RealClock(), disk)
        try:
            yield store
        finally:
            await store.close()


@asynccontextmanager
async def _disk(folder: Path) -> AsyncIterator[RealDisk]:
    disk = RealDisk(folder)
    try:
        yield disk
    finally:
        await disk.close()
