"""Three storage nodes with one object store, behind gRPC, and a broker over them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from broker_containers.broker.broker import Broker
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import LocalNode
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from storage_grpc.remote import RemoteNodes
from storage_grpc.service.server import Identity, StorageServer
from storage_grpc.service.tier_calls import ServedTier
from storage_grpc.tier.local import LocalTier
from storage_grpc.tier.remote import RemoteTier
from sulina.runtime.seam import run_inline
from tests.storage_service.serving import QUICK
from tests.tier.world import SETTINGS, TierBench, make_world

PATIENCE = 60.0
_TIMEOUTS = QuorumTimeouts(append=5.0, call=5.0)


@dataclass
class TierNode:
    """One storage node; its entries survive its server."""

    name: str
    world: TierBench
    entries: MemoryEntryStore = field(default_factory=MemoryEntryStore)
    port: int = 0
    offers_tier: bool = True
    place_of_objects: str = "memory://objects"
    server: StorageServer | None = None
    tier: LocalTier | None = None

    @property
    def incarnation(self) -> str:
        return self.name.encode().hex().ljust(32, "0")

    @property
    def place(self) -> str:
        return f"{self.name}=127.0.0.1:{self.port}"

    async def start(self) -> None:
        loss_record = LossRecord(may_have_lost=False)
        served = None
        if self.offers_tier:
            source = LocalNode(self.name, self.entries, loss_record)
            self.tier = LocalTier(self.world.objects, source, run_inline)
            served = ServedTier(self.tier, self.place_of_objects)
        identity = Identity(self.name, self.incarnation, loss_record, 1 << 20)
        self.server = StorageServer(identity, self.entries, served)
        await self.server.start("127.0.0.1", self.port)
        self.port = self.server.port

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(5.0)
        if self.tier is not None:
            await self.tier.close()
        self.server = self.tier = None


@dataclass
class TierCluster:
    """The storage nodes, a broker's client of them, and a bench for the rest."""

    world: TierBench
    storages: list[TierNode]
    nodes: RemoteNodes
    ledgers: QuorumLedgers

    def tier(self, hedge_seconds: float = 2.0) -> RemoteTier:
        return RemoteTier(self.nodes, self.world.metadata, self.world.clock, hedge_seconds)

    def broker(self) -> Broker:
        world = self.world
        return Broker(self.ledgers, world.metadata, world.clock, SETTINGS, tier=self.tier())

    async def eventually_known(self, tiers: int) -> None:
        """Wait until ``tiers`` nodes are known to have an object store."""
        async with asyncio.timeout(PATIENCE):
            while len(self.nodes.with_tier()) != tiers:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def tier_cluster(*, tiers: int = 3) -> AsyncIterator[TierCluster]:
    """A cluster in which the first ``tiers`` nodes have an object store."""
    world = await make_world()
    storages = [TierNode(f"s{n}", world, offers_tier=n < tiers) for n in range(3)]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(world.close)
        for storage in storages:
            await storage.start()
            stack.push_async_callback(storage.stop)
        places = [storage.place for storage in storages]
        nodes = await stack.enter_async_context(
            RemoteNodes(places, world.clock, random.Random(1), QUICK)
        )
        async with asyncio.timeout(PATIENCE):
            await nodes.ready(3)
        ledgers = QuorumLedgers(nodes, world.metadata, world.clock, QuorumSettings(), _TIMEOUTS)
        yield TierCluster(world, storages, nodes, ledgers)
