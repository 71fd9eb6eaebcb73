"""The simulated event loop: time is virtual, order is fixed, machines pause and die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.simulation.loop import SimLoop, SimMachine, Stuck


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
