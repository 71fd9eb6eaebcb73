"""A simulated cluster whose ledgers are offloaded and then deleted from the storage nodes.

At the end everything is offloaded, in some runs all storage nodes lose their disks, and every topic
is read from its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.tiering import TieringSettings, untiered
from storage_grpc.tier.local import LocalTier
from storage_grpc.tier.tier import Tier
from sulina.errors import SulinaError
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import run_inline
from tests.simulation.brokers import SimBroker, WatchedLedgers
from tests.simulation.clock import SimClock
from tests.simulation.cluster import SimCluster, SimShape
from tests.simulation.faults import Faults
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.network import SimEndpoint
from tests.simulation.objects import ObjectsService, SimObjects
from tests.simulation.switches import Switches
from tests.simulation.tier_checker import TierChecker
from tests.simulation.trace import Trace

_FLUSH_SECONDS = 120.0


class TierBroker(SimBroker):
    """A broker that offloads ledgers itself, from entries of the storage nodes."""

    objects: SimEndpoint
    row_group_bytes: int

    def _tier(self, machine: SimMachine, ledgers: WatchedLedgers) -> Tier | None:
        store = SimObjects(self._network, machine, self.objects, self.clock)
        return LocalTier(
            store, ledgers, run_inline, row_group_bytes=self.row_group_bytes, cache_bytes=20_000
        )


class TierWorld(SimCluster):
    """All machines of one run with an object store."""

    checker: TierChecker

    def __init__(self, seed: int, loop: SimLoop, trace: Trace, switches: Switches) -> None:
        self._tier_chance = chance = Random(f"{seed}/tier")
        self._tiering = TieringSettings(
            after_seconds=chance.choice((1.0, 3.0, 30.0)),
            check_seconds=chance.choice((0.1, 0.5)),
            at_once=chance.choice((1, 3)),
            local_seconds=chance.choice((0.0, 0.0, 2.0)),
            offload_seconds=chance.choice((2.0, 10.0)),
            merge_bytes=chance.choice((0, 10_000, 1 << 20)),
            replaced_seconds=chance.choice((1.0, 3.0)),
        )
        self._row_group_bytes = chance.choice((500, 4000, 1 << 20))
        self.objects = SimEndpoint("objects")
        super().__init__(seed, loop, trace, switches)
        self.service = ObjectsService(
            Random(f"{seed}/objects"),
            self.checker.object_changed,
            put_if_absent=switches.put_if_absent,
        )
        self.checker.objects = self.service.objects
        self.objects.up(SimMachine(loop, "objects"), self.service)

    def _drawn(self) -> SimShape:
        shape = super()._drawn()
        # Few small ledgers: each is offloaded.
        return replace(
            shape,
            roll_bytes=self.chance.choice((2_000, 4_000, 8_000)),
            frames=min(shape.frames, 60),
            topics=1,
        )

    def _checker(self) -> TierChecker:
        return TierChecker(self.trace, self.topics)

    def _settings(self, name: str) -> BrokerSettings:
        return replace(super()._settings(name), tier=self._tiering)

    def lone_broker(self, name: str) -> SimBroker:
        broker = TierBroker(*self._parts(name))
        broker.objects = self.objects
        broker.row_group_bytes = self._row_group_bytes
        return broker

    async def audit(self) -> None:
        for topic in self.topics:
            await self._flush(topic)
        self.checker.left_behind()
        if self._tier_chance.random() < 0.5:
            self.trace.note("all storage nodes lose their disks")
            for storage in self.storages:
                storage.wipe()
                storage.start()
        await super().audit()

    async def _flush(self, topic: TopicName) -> None:
        """Wait until a topic is in objects only."""
        clock = SimClock(self.loop)
        end = clock.now() + _FLUSH_SECONDS
        while clock.now() < end:
            broker = self.owners[topic]
            if broker.machine is not None and broker.broker is not None:
                try:
                    log = await broker.machine.spawn(self._owned(broker, topic), "flush")
                except SulinaError:
                    log = None
                if log is not None and self._is_flushed(log):
                    return
            await clock.sleep(0.5)
            for error in self.loop.errors:
                self.checker.fail(f"unhandled error: {error}")
            self.checker.check()
        self.checker.fail(f"{topic} is not offloaded within {_FLUSH_SECONDS} s")
        self.checker.check()

    def _is_flushed(self, log: ManagedLedger) -> bool:
        return bool(log.refs) and _all_objects(log.refs) and not log.replacement

    async def _owned(self, broker: SimBroker, topic: TopicName) -> ManagedLedger:
        assert broker.broker is not None
        log = (await broker.broker.topic(topic)).log
        assert isinstance(log, ManagedLedger)
        await broker.broker.tiering.flush(log)
        return log


def _all_objects(refs: Sequence[LedgerRef]) -> bool:
    """Whether all records are in objects only."""
    return not untiered(refs) and not any(ref.is_local for ref in refs if ref.records)


class TierFaults(Faults):
    """The same faults, and those of the object store."""

    kinds = (*Faults.kinds, "object_errors", "lost_answers", "slow_objects", "damaged_objects")

    def __init__(self, seed: int, cluster: TierWorld) -> None:
        self._world = cluster
        super().__init__(seed, cluster)

    def _names(self) -> list[str]:
        return [*super()._names(), "objects"]

    async def _object_errors(self) -> None:
        self._note("the object store returns errors")
        self._world.service.errors = self._chance.choice((0.2, 0.8))
        await self._for(0.3, 2.0)
        self._world.service.errors = 0.0

    async def _lost_answers(self) -> None:
        self._note("the object store's answers are lost")
        self._world.service.lost = self._chance.choice((0.2, 0.8))
        await self._for(0.3, 2.0)
        self._world.service.lost = 0.0

    async def _slow_objects(self) -> None:
        self._note("the object store is slow")
        self._world.service.slow = self._chance.choice((0.05, 0.5, 3.0))
        await self._for(0.3, 2.0)
        self._world.service.slow = 0.0

    async def _damaged_objects(self) -> None:
        self._note("objects are damaged in transit")
        self._world.service.damage = self._chance.choice((0.3, 1.0))
        await self._for(0.3, 1.5)
        self._world.service.damage = 0.0

    async def heal(self) -> None:
        await super().heal()
        self._world.service.heal()
        # An operator moves away what could not be verified.
        for key in self._world.checker.damaged():
            self._world.service.objects.pop(key)
