"""Calls that are put together have the outcome that they could have had one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import UnknownOutcome
from sulina.metadata.batching import BatchingStore
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import (
    Absent,
    Compare,
    Get,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
    TxnResult,
)
from tests.metadata.manual_clock import ManualClock


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
    _, store = await opened()
    await store.put("/taken", b"")
    results = await asyncio.gather(
        *(store.txn([Absent(f"/k/{n}")], [Put(f"/k/{n}", b"")]) for n in range(20)),
        store.txn([Absent("/taken")], [Put("/taken", b"other")], [Get("/taken")]),
    )
    assert [result.succeeded for result in results] == [True] * 20 + [False]
    assert results[-1].responses[0].item is not None
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
