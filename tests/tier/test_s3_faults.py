"""Tiering to a real S3 server behind a network that fails: nothing lost, nothing twice, and no
entry deleted before its object was verified."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from broker_containers.topics.tiering import untiered
from localstack.emulators.s3 import make_bucket
from localstack.emulators.server import EmulatorServer
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import head_of
from sulina.errors import Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.seam import run_inline
from tests.support.faulty_http import FaultyHttp
from tests.support.faulty_proxy import Fault, Seen
from tests.tier.world import TOPIC, HookedStore, TierBench, make_world, read_all

BUCKET = "tier-faults"
SETTINGS = ObjectSettings(attempts=2, deadline_seconds=20.0, part_bytes=5 << 20)
_ROUNDS = 60


class QuickClock(RealClock):
    """Shortens the pauses between attempts, not the deadlines."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50 if seconds < SETTINGS.deadline_seconds else seconds)


@dataclass
class S3Scene:
    """A bench with objects in S3 behind a proxy, and direct access to them."""

    world: TierBench
    proxy: FaultyHttp
    direct: ObjectStore


@asynccontextmanager
async def _scene(
    server: EmulatorServer, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> AsyncIterator[S3Scene]:
    make_bucket(server.url, server.credentials, BUCKET)
    for name, value in server.credentials.variables.items():
        monkeypatch.setenv(name, value)
    place = f"s3://{BUCKET}/{prefix}?endpoint="
    clock, chance = QuickClock(), random.Random(1)
    world = await make_world(row_group_bytes=64 << 10)
    async with (
        FaultyHttp(server.port) as proxy,
        open_store(place + proxy.url, clock, chance, settings=SETTINGS) as store,
        open_store(place + server.url, clock, chance, settings=SETTINGS) as direct,
    ):
        world.objects = HookedStore(store)
        yield S3Scene(world, proxy, direct)
        await world.close()


def _spoiling(seed: int, share: float) -> Callable[[Seen], Fault | None]:
    chance = random.Random(seed)
    kinds = (Fault.BUSY, Fault.CUT, Fault.LOST, Fault.TORN)
    return lambda seen: chance.choice(kinds) if chance.random() < share else None


@pytest.mark.parametrize("seed", [1, 2])
async def test_ledgers_become_objects_whatever_the_network_does(
    seaweedfs: EmulatorServer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    async with _scene(seaweedfs, monkeypatch, f"small/{seed}") as scene:
        world = scene.world
        broker = world.broker()
        log = await world.log(broker)
        checking = ObjectReader(scene.direct, run_inline)
        dropped: list[int] = []

        async def verified(moment: str, ledger: str) -> None:
            if moment == "before entries":
                ref = next(ref for ref in await world.refs() if ref.id == int(ledger))
                summary = await checking.verify(head_of(TOPIC, ref))
                assert ref.tiered is not None and ref.tiered.digest == summary.digest
                assert summary.last_offset == ref.last_offset
                dropped.append(ref.id)

        world.ledgers.hook = verified
        scene.proxy.choose = _spoiling(seed, 0.35)
        await world.publish(log, 16)
        await broker.tiering.flush(log)
        for _ in range(_ROUNDS):
            await broker.tiering.round()
            if not untiered(log.refs):
                break
            world.clock.move(300.0)
        scene.proxy.heal()
        await broker.tiering.round()
        assert not untiered(log.refs) and sorted(dropped) == [ref.id for ref in log.refs]
        assert len(await scene.direct.list("ledgers/")) == len(log.refs)
        again = await world.log(world.broker())
        assert await read_all(again) == world.published
        await checking.close()


async def test_a_large_ledger_goes_up_in_parts_and_comes_back_through_faults(
    seaweedfs: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _scene(seaweedfs, monkeypatch, "large") as scene:
        world = scene.world
        world.settings = world.settings.__class__(tier=world.settings.tier)
        broker = world.broker()
        log = await world.log(broker)
        chance = random.Random(5)
        for number in range(6):
            await world.publish_one(log, f"big-{number}", chance.randbytes(1 << 20))
        await broker.tiering.flush(log)
        scene.proxy.choose = _spoiling(9, 0.25)
        for _ in range(_ROUNDS):
            await broker.tiering.round()
            if not untiered(log.refs):
                break
            world.clock.move(300.0)
        [info] = await scene.direct.list("ledgers/")
        assert info.size > 6 << 20
        assert any("partNumber" in seen.path for seen in scene.proxy.done)
        assert world.entries.ledgers() == []
        scene.proxy.choose = _spoiling(11, 0.25)
        again = await world.log(world.broker())
        for _ in range(_ROUNDS):
            try:
                found = await read_all(again)
                break
            except Unavailable:
                continue
        assert found == world.published
