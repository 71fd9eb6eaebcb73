"""Leases, shared history and batched calls, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import Unavailable, UnknownOutcome
from sulina.metadata.batching import BatchingStore
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.embedded.history import ChangeHistory, HistoryWatch
from sulina.metadata.embedded.state import Change, KeyStored
from sulina.metadata.lease import Lease, keep
from sulina.metadata.store import (
    Absent,
    Compacted,
    Compare,
    Get,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
    TxnResult,
)
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


def change(revision: int, key: str = "/a", value: bytes = b"") -> list[Change]:
    return [KeyStored(KeyValue(key, value, revision, revision, 1, 0))]


async def test_a_watch_that_is_too_slow_is_told_to_list_again() -> None:
    history = ChangeHistory(1, max_events=10)
    slow = HistoryWatch(history, "/a", 2)
    for revision in range(2, 6):
        history.record(change(revision))
    assert (await anext(slow)).mod_revision == 2
    for revision in range(6, 20):
        history.record(change(revision))
    with pytest.raises(Compacted) as caught:
        await anext(slow)
    assert caught.value.revision == 10
    again = HistoryWatch(history, "/a", caught.value.revision)
    assert [(await anext(again)).mod_revision for _ in range(10)] == list(range(10, 20))


async def test_a_quiet_watch_is_not_too_slow_however_much_happens_elsewhere() -> None:
    history = ChangeHistory(1, max_events=10)
    quiet = HistoryWatch(history, "/quiet", 2)
    coming = asyncio.ensure_future(anext(quiet))
    await asyncio.sleep(0)
    for revision in range(2, 1_000):
        history.record(change(revision))
    history.record(change(1_000, "/quiet"))
    assert (await coming).mod_revision == 1_000


async def test_a_quiet_watch_whose_wait_was_given_up_is_not_too_slow_either() -> None:
    history = ChangeHistory(1, max_events=10)
    quiet = HistoryWatch(history, "/quiet", 2)
    coming = asyncio.ensure_future(anext(quiet))
    await asyncio.sleep(0)
    for revision in range(2, 100):
        history.record(change(revision))
    coming.cancel()
    await asyncio.wait([coming])
    history.record(change(100, "/quiet"))
    assert (await anext(quiet)).mod_revision == 100


async def test_an_event_that_arrives_while_a_wait_is_given_up_is_not_lost() -> None:
    history = ChangeHistory(1)
    watch = HistoryWatch(history, "/a", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    coming.cancel()
    history.record(change(2))
    await asyncio.wait([coming])
    assert coming.cancelled()
    assert (await anext(watch)).mod_revision == 2


async def test_events_that_arrive_before_a_woken_watch_runs_are_not_skipped() -> None:
    history = ChangeHistory(1)
    watch = HistoryWatch(history, "/a", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    for revision in (2, 3, 4):
        history.record(change(revision))
    assert (await coming).mod_revision == 2
    assert [(await anext(watch)).mod_revision for _ in range(2)] == [3, 4]


async def test_history_is_bounded_in_bytes() -> None:
    history = ChangeHistory(1, max_bytes=10_000)
    watch = HistoryWatch(history, "/a", 2)
    for revision in range(2, 20):
        history.record(change(revision, value=bytes(1_000)))
    with pytest.raises(Compacted):
        await anext(watch)
    assert history.compacted > 10


async def test_the_events_of_one_revision_are_forgotten_together() -> None:
    history = ChangeHistory(1, max_events=3)
    history.record(change(2, "/a") + change(2, "/b"))
    history.record(change(3, "/a") + change(3, "/b"))
    assert history.compacted == 3
    watch = HistoryWatch(history, "/", 3)
    assert [(await anext(watch)).key for _ in range(2)] == ["/a", "/b"]


async def test_a_transaction_larger_than_the_history_compacts_everything() -> None:
    history = ChangeHistory(1, max_events=3)
    watch = HistoryWatch(history, "/", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    history.record([each for number in range(5) for each in change(2, f"/{number}")])
    with pytest.raises(Compacted) as caught:
        await coming
    assert caught.value.revision == 3


class CountingStore:
    """Counts transactions, and loses the answer of one on request."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.calls = 0
        self.lose_answer = False

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        self.calls += 1
        await asyncio.sleep(0)
        result = await self._store.txn(compares, then, otherwise)
        if self.lose_answer:
            raise UnknownOutcome("the answer was lost")
        return result

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def opened() -> tuple[CountingStore, BatchingStore]:
    counting = CountingStore(await EmbeddedStore.open(ManualClock()))
    return counting, BatchingStore(counting)  # type: ignore[arg-type]


async def test_a_thousand_reads_at_once_are_a_few_calls() -> None:
    counting, store = await opened()
    await asyncio.gather(*(store.put(f"/k/{n}", b"%d" % n) for n in range(1000)))
    found = await asyncio.gather(*(store.get(f"/k/{n}") for n in range(1000)))
    assert [item.value for item in found if item is not None] == [b"%d" % n for n in range(1000)]
    assert counting.calls < 40
    await store.close()


async def test_a_thousand_short_listings_at_once_are_a_few_calls() -> None:
    counting, store = await opened()
    keys = [f"/k/{n}/{leaf}" for n in range(500) for leaf in "ab"]
    await asyncio.gather(*(store.put(key, b"") for key in keys))
    counting.calls = 0
    found = await asyncio.gather(*(store.range(f"/k/{n}/") for n in range(1000)))
    assert [item.key for listing in found for item in listing.items] == keys
    assert not any(listing.more for listing in found)
    assert counting.calls < 20
    await store.close()


async def test_a_long_listing_is_whole() -> None:
    _, store = await opened()
    await asyncio.gather(*(store.put(f"/k/{n:03}", b"") for n in range(100)))
    found = await store.range("/k/")
    assert [item.key for item in found.items] == [f"/k/{n:03}" for n in range(100)]
    await store.close()


async def test_a_listing_misses_nothing_up_to_the_revision_that_it_tells() -> None:
    _, store = await opened()
    listing, revision = await asyncio.gather(store.range("/k/"), store.put("/k/1", b""))
    assert listing.items or listing.revision < revision
    await store.close()


async def test_a_swap_that_fails_does_not_hold_up_those_beside_it() -> None:
    counting, store = await opened()
    await store.put("/taken", b"")
    counting.calls = 0
    results = await asyncio.gather(
        store.txn([Absent("/taken")], [Put("/taken", b"other")], [Get("/taken")]),
        *(store.txn([Absent(f"/k/{n}")], [Put(f"/k/{n}", b"")]) for n in range(40)),
    )
    assert [result.succeeded for result in results] == [False] + [True] * 40
    assert results[0].responses[0].item is not None
    revisions = [result.revision for result in results[1:]]
    assert revisions == sorted(revisions), "in the order in which they were made"
    # Two for each time that what is left is halved, not one for each call.
    assert counting.calls <= 2 * len(results).bit_length() + 1
    await store.close()


async def test_when_an_answer_is_lost_every_call_in_it_has_an_unknown_outcome() -> None:
    counting, store = await opened()
    counting.lose_answer = True
    outcomes = await asyncio.gather(
        *(store.put(f"/k/{n}", b"") for n in range(10)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {UnknownOutcome}
    assert len({id(outcome) for outcome in outcomes}) == 10, "each waiter has an error of its own"
    await store.close()


async def test_a_read_beside_writes_whose_answer_is_lost_changed_nothing() -> None:
    counting, store = await opened()
    counting.lose_answer = True
    reads = store.get("/k/0"), store.range("/k/")
    written, *read = await asyncio.gather(store.put("/k/9", b""), *reads, return_exceptions=True)
    assert isinstance(written, UnknownOutcome)
    assert [type(each) for each in read] == [Unavailable, Unavailable]
    await store.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=60))
def test_of_many_who_count_up_the_same_keys_none_is_lost(who: list[tuple[int, bool]]) -> None:
    async def scenario() -> None:
        _, store = await opened()

        async def count(key: str, by_swap: bool) -> None:
            while True:
                found = await store.get(key)
                value = b"%d" % (int(found.value) + 1 if found else 1)
                revision = found.mod_revision if found else 0
                guard = ModRevisionIs(key, revision) if by_swap or found else Absent(key)
                if (await store.txn([guard], [Put(key, value)])).succeeded:
                    return

        await asyncio.gather(*(count(f"/k/{number}", swap) for number, swap in who))
        for number in range(4):
            wanted = sum(1 for each, _ in who if each == number)
            found = await store.get(f"/k/{number}")
            assert (int(found.value) if found else 0) == wanted
        await store.close()

    asyncio.run(scenario())
