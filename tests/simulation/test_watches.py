"""Leases and watches across the simulated network; a program that never waits is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from sulina.metadata.store import Compacted, Event, Watch
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.metadata import MetadataService, SimMetadata, WatchedStore
from tests.simulation.network import SimEndpoint, SimNetwork
from tests.simulation.switches import Switches
from tests.simulation.watchdog import Spinning, watchdog


class WatchWorld:
    """A metadata store on one machine, and its client on another."""

    def __init__(self, loop: SimLoop, store: WatchedStore, rate: float = 1.0) -> None:
        self.network = SimNetwork(loop, Random(1), 0.001)
        self.store = store
        self.machine = SimMachine(loop, "client", rate)
        server = SimEndpoint("metadata")
        server.up(SimMachine(loop, "metadata"), MetadataService(store, Switches(), Random(2)))
        self.clock = SimClock(loop, rate)
        self.client = SimMetadata(
            self.network, self.machine, server, pytest.fail, self.clock, "client.1"
        )

    def break_all(self) -> None:
        for connection in list(self.network.connections):
            connection.close()


def run(work: Callable[[WatchWorld], Coroutine[Any, Any, None]], rate: float = 1.0) -> None:
    loop = SimLoop()

    async def main() -> None:
        world = WatchWorld(loop, await WatchedStore.open(SimClock(loop)), rate)
        await world.machine.spawn(work(world))

    try:
        loop.run_until_complete(main())
    finally:
        loop.finish()


async def take(watch: Watch, count: int) -> list[Event]:
    return [await anext(watch) for _ in range(count)]


def test_a_watch_goes_on_behind_the_last_change_after_its_connection_broke() -> None:
    async def work(world: WatchWorld) -> None:
        watch = world.client.watch("/a/", from_revision=1)
        await world.client.put("/a/1", b"x")
        seen = await take(watch, 1)
        world.break_all()
        await world.client.put("/a/2", b"y")
        await world.client.put("/b/1", b"z")
        await world.client.put("/a/1", b"w")
        seen += await take(watch, 2)
        assert [(event.key, event.value) for event in seen] == [
            ("/a/1", b"x"),
            ("/a/2", b"y"),
            ("/a/1", b"w"),
        ]

    run(work)


def test_a_watch_that_comes_back_too_late_is_told_that_changes_are_gone() -> None:
    async def work(world: WatchWorld) -> None:
        watch = world.client.watch("/a/", from_revision=1)
        await world.client.put("/a/1", b"x")
        await world.client.compact(await world.client.put("/a/2", b"y"))
        with pytest.raises(Compacted):
            await anext(watch)

    run(work)


def test_a_lease_that_nobody_renews_runs_out_here_before_it_does_at_the_store() -> None:
    async def work(world: WatchWorld) -> None:
        lease = await world.client.grant(2)
        await world.client.put("/a/1", b"x", lease=lease.id)
        while lease.alive():
            assert lease.id in world.store.leases
            await asyncio.sleep(0.01)
        assert lease.id in world.store.leases
        await asyncio.sleep(0.5)
        assert await world.client.get("/a/1") is None

    for rate in (0.97, 1.0, 1.03):
        run(work, rate)


def test_a_store_that_is_started_again_has_its_keys_and_leases() -> None:
    async def work(world: WatchWorld) -> None:
        lease = await world.client.grant(2)
        await world.client.put("/a/1", b"x", lease=lease.id)
        again = world.store.restarted()
        assert again.revision == world.store.revision and lease.id in again.leases
        found = await again.get("/a/1")
        assert found is not None and found.value == b"x"

    run(work)


def test_a_clock_that_is_fast_has_timers_that_are_fast() -> None:
    async def work(world: WatchWorld) -> None:
        began, here = asyncio.get_running_loop().time(), world.clock.now()
        await world.clock.sleep(1.03)
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
        assert world.clock.now() - here == pytest.approx(1.03)

    run(work, 1.03)


def test_a_program_that_never_waits_is_stopped() -> None:
    def spin() -> None:
        while True:
            pass

    with watchdog(0.05), pytest.raises(Spinning):
        spin()
