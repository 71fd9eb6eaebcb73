"""Refusals of invalid tokens are held back, longer and longer, by address."""

from __future__ import annotations

import asyncio

import pytest

from broker_containers.security.throttle import TokenThrottle, network_of
from sulina.errors import Overloaded
from tests.metadata.manual_clock import ManualClock

HERE = "192.0.2.1"


class Slept(ManualClock):
    """Remembers each sleep, and moves on by it."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_the_first_refusals_are_immediate_and_later_ones_wait_twice_as_long() -> None:
    clock = Slept()
    throttle = TokenThrottle(clock)
    for _ in range(10):
        await throttle.refused(HERE)
    assert clock.slept == []
    for _ in range(7):
        await throttle.refused(HERE)
    assert clock.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


async def test_other_addresses_do_not_wait() -> None:
    clock = Slept()
    throttle = TokenThrottle(clock)
    for _ in range(20):
        await throttle.refused(HERE)
    clock.slept.clear()
    await throttle.refused("192.0.2.2")
    assert clock.slept == []


async def test_an_address_starts_again_after_a_minute() -> None:
    clock = Slept()
    throttle = TokenThrottle(clock)
    for _ in range(20):
        await throttle.refused(HERE)
    clock.slept.clear()
    await clock.advance(61)
    await throttle.refused(HERE)
    assert clock.slept == []


async def test_the_number_of_waiting_refusals_is_bounded() -> None:
    throttle = TokenThrottle(ManualClock())
    for _ in range(10):
        await throttle.refused(HERE)
    waiting = [asyncio.create_task(throttle.refused(HERE)) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=r"too many invalid tokens from 192.0.2.1: check the"):
        await throttle.refused(HERE)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_the_table_of_addresses_is_bounded() -> None:
    clock = Slept()
    throttle = TokenThrottle(clock)
    for _ in range(20):
        await throttle.refused(HERE)
    for number in range(5000):
        await throttle.refused(f"10.0.{number // 250}.{number % 250}")
    clock.slept.clear()
    await throttle.refused(HERE)  # forgotten, as the address that was seen longest ago
    assert clock.slept == []


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:", "unix:"),
    ],
)
def test_an_address_counts_as_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
