"""What is done to the cluster. Each fault begins, lasts a while, and is undone.

Faults of one tier are never at work together: one storage node and one member of etcd can be
missed at a time. Of two tiers they may be.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from broker_containers.local_cluster.processes import ManagedProcess
from tests.chaos.arena import PATIENCE, Arena, Broken
from tests.support.wire import Wire

Tier = Literal["broker", "storage", "etcd"]
Doing = Callable[[Arena, random.Random], AbstractAsyncContextManager[str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of harm; entering it says to whom it was done."""

    kind: str
    tier: Tier
    weight: int
    do: Doing


def _one(arena: Arena, tier: Tier, rng: random.Random) -> ManagedProcess:
    names = {
        "broker": sorted(arena.cluster.brokers),
        "storage": sorted(arena.cluster.storage),
        "etcd": sorted(arena.cluster.etcd),
    }
    return arena.cluster.processes[rng.choice(names[tier])]


def _kill(tier: Tier) -> Doing:
    @asynccontextmanager
    async def do(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
        process = _one(arena, tier, rng)
        process.child.kill()
        yield process.name
        await arena.start(process)

    return do


def _stop(tier: Tier) -> Doing:
    @asynccontextmanager
    async def do(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
        process = _one(arena, tier, rng)
        await arena.stop(process)
        yield process.name
        await arena.start(process)

    return do


def _freeze(tier: Tier) -> Doing:
    @asynccontextmanager
    async def do(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
        process = _one(arena, tier, rng)
        process.child.freeze()
        try:
            yield process.name
        finally:
            process.child.thaw()

    return do


@asynccontextmanager
async def _kill_leader(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
    process = arena.cluster.brokers[await arena.leader()]
    process.child.kill()
    yield process.name
    await arena.start(process)


def _part(tier: Literal["storage", "etcd"], *, all_of_them: bool) -> Doing:
    """A broker can't reach one of the others, or none: either it is told, or it hears nothing."""

    @asynccontextmanager
    async def do(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
        broker = rng.choice(sorted(arena.cluster.brokers))
        ways = (arena.to_storage if tier == "storage" else arena.to_etcd)[broker]
        names = sorted(ways) if all_of_them else [rng.choice(sorted(ways))]
        harm: Callable[[Wire], None] = rng.choice(
            [Wire.cut, Wire.block, lambda wire: wire.block(there=False)]
        )
        for name in names:
            harm(ways[name])
        try:
            yield f"{broker} from {', '.join(names)}"
        finally:
            for name in names:
                ways[name].heal()

    return do


@asynccontextmanager
async def _drain(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
    broker = rng.choice(sorted(arena.cluster.brokers))
    await arena.admin("broker.drain", broker=broker, reason="chaos")
    yield broker
    # It must have topics again, or the next one might be the last that has any.
    end = time.monotonic() + PATIENCE
    while await arena.admin("broker.activate", broker=broker) is None:
        if time.monotonic() > end:
            raise Broken(f"{broker} could not be activated again")
        await asyncio.sleep(0.2)


@asynccontextmanager
async def _move(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
    found = await arena.admin("topic.list", all=True) or []
    names = sorted(row["topic"] for row in found if not row["partitions"])
    moved = rng.sample(names, min(len(names), 3))
    for name in moved:
        await arena.admin("topic.move", topic=name)
    yield ", ".join(moved)


@asynccontextmanager
async def _rebalance(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
    plan = await arena.admin("balance.rebalance")
    yield f"{len(plan['moves']) if plan else 0} topics"


@asynccontextmanager
async def _nothing(arena: Arena, rng: random.Random) -> AsyncIterator[str]:
    yield "for comparison"


QUIET: Final = Fault("nothing", "broker", 2, _nothing)
FAULTS: Final = (
    QUIET,
    Fault("broker killed", "broker", 6, _kill("broker")),
    Fault("leader killed", "broker", 3, _kill_leader),
    Fault("broker stopped", "broker", 4, _stop("broker")),
    Fault("broker frozen", "broker", 4, _freeze("broker")),
    Fault("broker drained", "broker", 3, _drain),
    Fault("topics moved", "broker", 4, _move),
    Fault("rebalance", "broker", 1, _rebalance),
    Fault("storage killed", "storage", 3, _kill("storage")),
    Fault("storage stopped", "storage", 2, _stop("storage")),
    Fault("storage frozen", "storage", 3, _freeze("storage")),
    Fault("storage node cut off", "storage", 3, _part("storage", all_of_them=False)),
    Fault("all storage cut off", "storage", 2, _part("storage", all_of_them=True)),
    Fault("etcd killed", "etcd", 3, _kill("etcd")),
    Fault("etcd stopped", "etcd", 1, _stop("etcd")),
    Fault("etcd frozen", "etcd", 2, _freeze("etcd")),
    Fault("etcd member cut off", "etcd", 2, _part("etcd", all_of_them=False)),
    Fault("all etcd cut off", "etcd", 3, _part("etcd", all_of_them=True)),
)


def choose(rng: random.Random, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """One fault, or now and then two of different tiers."""
    first = rng.choices(faults, [fault.weight for fault in faults])[0]
    others = [fault for fault in faults if fault.tier != first.tier and fault is not QUIET]
    if first is QUIET or not others or rng.random() > 0.25:
        return (first,)
    return first, rng.choices(others, [fault.weight for fault in others])[0]
