"""The simulated event loop, and leases and watches across the simulated network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from sulina.metadata.store import Compacted, Event, Watch
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine, Stuck
from tests.simulation.metadata import MetadataService, SimMetadata, WatchedStore
from tests.simulation.network import SimEndpoint, SimNetwork
from tests.simulation.switches import Switches
from tests.simulation.watchdog import Spinning, watchdog


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop()
    yield made
    made.finish()


def test_a_day_passes_at_once(loop: SimLoop) -> None:
    began = time.monotonic()
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert time.monotonic() - began < 5


def test_timers_run_in_the_order_of_their_times_and_then_of_their_calls(loop: SimLoop) -> None:
    seen: list[str] = []
    for name, delay in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        loop.call_later(delay, seen.append, name)
    loop.run_until_complete(asyncio.sleep(3))
    assert seen == ["a", "b", "c", "d"]


def test_a_paused_machine_does_nothing_until_it_goes_on(loop: SimLoop) -> None:
    machine = SimMachine(loop, "m")
    seen: list[float] = []

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def world() -> None:
        machine.spawn(tick())
        await asyncio.sleep(1.5)
        machine.pause()
        await asyncio.sleep(10)
        machine.resume()
        await asyncio.sleep(5)

    loop.run_until_complete(world())
    assert seen == [1.0, 11.5, 12.5]


def test_a_killed_machine_has_no_last_word(loop: SimLoop) -> None:
    machine = SimMachine(loop, "m")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("woke")
        finally:
            seen.append("cleaned up")

    async def world() -> list[str]:
        machine.spawn(work())
        await asyncio.sleep(0.5)
        machine.kill()
        await asyncio.sleep(5)
        return list(seen)

    assert loop.run_until_complete(world()) == []


def test_waiting_for_what_never_comes_is_an_error_and_not_a_hang(loop: SimLoop) -> None:
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_errors_that_nobody_handles_are_kept(loop: SimLoop) -> None:
    loop.call_soon(lambda: 1 // 0)
    loop.run_until_complete(asyncio.sleep(0.1))
    assert "ZeroDivisionError" in loop.errors[0]


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
