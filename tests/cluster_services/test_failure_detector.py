"""A broker whose process died is found out long before its lease, and nobody else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from broker_containers.cluster.election import Election
from broker_containers.cluster.failure_detector import FailureDetector
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import NobodyThere, Unavailable
from sulina.metadata.keys.members import BrokerRecord
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock
from tests.cluster_services.conftest import until

LEASE = 600
"""Seconds: what happens here does not happen because a lease runs out."""
SETTINGS = ClusterSettings(lease_seconds=LEASE, check_seconds=0.1)


class Wires:
    """What stands at each address: a broker that answers, nobody, or silence."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.silent: set[str] = set()
        self.tried: dict[str, int] = {}
        self._lines: dict[str, list[asyncio.Event]] = {}

    async def open(self, broker: str, url: str) -> Wire:
        self.tried[broker] = self.tried.get(broker, 0) + 1
        await asyncio.sleep(0)
        if broker in self.refusing:
            raise NobodyThere(f"nobody listens at {url}")
        if broker in self.silent:
            raise Unavailable(f"{url} does not answer")
        lost = asyncio.Event()
        self._lines.setdefault(broker, []).append(lost)
        return Wire(lost)

    def met(self, broker: str) -> int:
        return len(self._lines.get(broker, ()))

    def cut(self, broker: str) -> None:
        for lost in self._lines.get(broker, ()):
            lost.set()

    def die(self, broker: str) -> None:
        self.refusing.add(broker)
        self.cut(broker)


class Wire:
    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    async def ended(self) -> None:
        await self._lost.wait()


class Place:
    """The services of one broker that matter here."""

    def __init__(self, store: MetadataStore, name: str, wires: Wires) -> None:
        clock = RealClock()
        self.tables = ClusterTables(store, clock)
        record = BrokerRecord(f"sulina://{name}:6655")
        self.membership = Membership(store, clock, name, record, LEASE)
        self.tables.brokers.on_change(self.membership.changed)
        self.election = Election(store, clock, self.tables, self.membership, SETTINGS)
        self.detector = FailureDetector(
            store, clock, self.tables, self.membership, self.election, wires
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Place]:
        async with self.tables, self.membership, self.election:
            task = asyncio.create_task(self.detector.run())
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def knows(self, broker: str) -> bool:
        return self.tables.broker(broker) is not None


@pytest.fixture
def wires() -> Wires:
    return Wires()


@asynccontextmanager
async def cluster(store: MetadataStore, wires: Wires, count: int) -> AsyncIterator[list[Place]]:
    """So many brokers, the first of which leads; each is watched by whoever should."""
    async with AsyncExitStack() as stack:
        places = []
        for number in range(count):
            place = Place(store, f"b{number}", wires)
            places.append(await stack.enter_async_context(place.running()))
            await until(lambda: places[0].election.term)
        await until(lambda: all(wires.met(f"b{number}") for number in range(1, count)))
        await until(lambda: wires.met("b0") >= count - 1)
        yield places


async def test_a_broker_that_died_is_struck_out(store: MetadataStore, wires: Wires) -> None:
    async with cluster(store, wires, 3) as (leader, other, dead):
        dead.membership._task.cancel()  # type: ignore[union-attr]  # it registers no more
        wires.die("b2")
        await until(lambda: not leader.knows("b2") and not other.knows("b2"))
        assert (leader.detector.removed, other.detector.removed) == (1, 0)
        assert leader.knows("b1")


async def test_when_the_leader_died_another_one_leads(store: MetadataStore, wires: Wires) -> None:
    async with cluster(store, wires, 2) as (dead, other):
        for task in (dead.membership._task, dead.election._task):
            task.cancel()  # type: ignore[union-attr]  # it does nothing any more
        wires.die("b0")
        await until(lambda: other.election.term)
        assert not other.knows("b0")


async def test_silence_proves_nothing(store: MetadataStore, wires: Wires) -> None:
    async with cluster(store, wires, 3) as (leader, _, _):
        wires.silent.add("b2")
        tried = wires.tried["b2"]
        wires.cut("b2")
        await until(lambda: wires.tried["b2"] >= tried + 2)
        assert leader.knows("b2") and leader.detector.removed == 0


async def test_who_was_never_met_is_not_judged(store: MetadataStore, wires: Wires) -> None:
    async with cluster(store, wires, 2) as (leader, _):
        wires.refusing.add("b2")
        async with Place(store, "b2", wires).running():
            await until(lambda: wires.tried.get("b2", 0) >= 4)
            assert leader.knows("b2") and leader.detector.removed == 0


async def test_when_many_seem_to_be_gone_nobody_is_struck_out(
    store: MetadataStore, wires: Wires
) -> None:
    async with cluster(store, wires, 4) as (leader, *others):
        wires.refusing |= {"b1", "b2", "b3"}
        for name in ("b1", "b2", "b3"):
            wires.cut(name)
        before = dict(wires.tried)
        await until(lambda: all(wires.tried[b] >= before[b] + 4 for b in ("b1", "b2", "b3")))
        assert leader.detector.removed == 0
        assert all(leader.knows(each.membership.broker) for each in others)


async def test_a_broker_that_was_wrongly_struck_out_comes_back_and_stays(
    store: MetadataStore, wires: Wires
) -> None:
    async with cluster(store, wires, 3) as (leader, _, accused):
        first = accused.membership.lease
        wires.die("b2")
        await until(lambda: leader.detector.removed == 1)
        await until(lambda: accused.membership.lease not in (None, first) and leader.knows("b2"))
        tried = wires.tried["b2"]
        await until(lambda: wires.tried["b2"] >= tried + 4)
        assert leader.detector.removed == 1 and leader.knows("b2")


async def test_a_broker_that_is_told_an_old_end_keeps_its_lease(
    store: MetadataStore, wires: Wires
) -> None:
    async with cluster(store, wires, 2) as (_, place):
        lease = place.membership.lease
        place.membership.changed("b1", None)
        await until(lambda: not place.membership._removed.is_set())
        assert place.membership.lease is lease
