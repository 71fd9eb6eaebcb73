"""A lease as its holder sees it, when the store is slow, silent or gone."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.lease import Lease, keep
from tests.metadata.manual_clock import ManualClock


class SlowKeeper:
    """A store whose answers come when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def renew_lease(self, lease: int) -> bool:
        self.asked.set()
        return await self.answer

    async def revoke_lease(self, lease: int) -> None:
        raise Unavailable("no metadata store answers: is it running?")


async def test_life_counts_from_when_the_renewal_was_sent() -> None:
    clock, keeper = ManualClock(), SlowKeeper()
    lease = Lease(1, 10, keeper, clock, sent=clock.now())
    await clock.advance(2)
    renewal = asyncio.create_task(lease.keep_alive())
    await keeper.asked.wait()
    await clock.advance(5)
    keeper.answer.set_result(True)
    assert await renewal is True
    await clock.advance(3.9)
    assert lease.alive()
    await clock.advance(0.2)  # 9.1 s after the renewal was sent
    assert not lease.alive()


async def test_an_answer_that_comes_too_late_does_not_revive_a_lease() -> None:
    clock, keeper = ManualClock(), SlowKeeper()
    lease = Lease(1, 10, keeper, clock, sent=clock.now())
    await clock.advance(8)
    renewal = asyncio.create_task(lease.keep_alive())
    await keeper.asked.wait()
    await clock.advance(1.5)
    assert not lease.alive()
    keeper.answer.set_result(True)
    assert await renewal is False
    assert not lease.alive()


async def test_a_lease_the_store_does_not_know_is_lost_at_once() -> None:
    clock, keeper = ManualClock(), SlowKeeper()
    lease = Lease(1, 10, keeper, clock, sent=clock.now())
    keeper.answer.set_result(False)
    assert await lease.keep_alive() is False
    assert not lease.alive()


async def test_a_revoked_lease_is_lost_even_if_the_store_cannot_be_reached() -> None:
    clock = ManualClock()
    lease = Lease(1, 10, SlowKeeper(), clock, sent=clock.now())
    with pytest.raises(Unavailable):
        await lease.revoke()
    assert not lease.alive()


async def test_keeping_a_lease_renews_it_until_it_is_revoked() -> None:
    clock = ManualClock()
    store = await EmbeddedStore.open(clock)
    lease = await store.grant(8)
    await store.put("/member", b"", lease=lease.id)
    keeping = asyncio.create_task(keep(lease, clock))
    await clock.advance(100)
    assert lease.alive()
    assert await store.get("/member") is not None
    await store.revoke_lease(lease.id)
    await clock.advance(8)
    await keeping
    assert not lease.alive()
    await store.close()


async def test_keeping_a_lease_ends_when_the_store_stays_away() -> None:
    clock, keeper = ManualClock(), SlowKeeper()
    lease = Lease(1, 8, keeper, clock, sent=clock.now())
    keeper.answer.set_exception(Unavailable("no metadata store answers: is it running?"))
    keeping = asyncio.create_task(keep(lease, clock))
    await clock.advance(7)
    assert lease.alive()
    await clock.advance(2)
    await keeping
    assert not lease.alive()


async def test_keeping_a_lease_ends_in_time_while_a_renewal_waits_for_its_answer() -> None:
    clock, keeper = ManualClock(), SlowKeeper()
    lease = Lease(1, 8, keeper, clock, sent=clock.now())
    keeping = asyncio.create_task(keep(lease, clock))
    await clock.advance(2)
    await keeper.asked.wait()
    await clock.advance(5)
    assert not keeping.done()
    await clock.advance(0.3)  # 7.3 of the 7.2 seconds that it believes in
    await keeping
    assert not lease.alive()
