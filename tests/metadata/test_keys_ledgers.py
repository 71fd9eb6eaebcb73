"""Ledger lists, ledger ids, subscriptions and cursors in the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sulina.errors import AlreadyExists, NotFound, Refused, TooLarge
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import (
    cursors,
    ledgers,
    namespaces,
    subscriptions,
    topic_lifecycle,
    topics,
)
from sulina.metadata.keys.cursors import MAX_RANGES, CursorRecord, CursorWrite
from sulina.metadata.keys.ledgers import LedgerIds, LedgerList, LedgerRef, LedgerState
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.store import ModRevisionIs
from sulina.model import FailurePolicy, Poison, SubscriptionType
from sulina.names import TopicName
from tests.metadata.manual_clock import ManualClock

ORDERS = TopicName.parse("/default/orders")
BILLS = TopicName.parse("/default/bills")
CLOSED = LedgerRef(1, 0, 99, LedgerState.CLOSED, 5_000, 10, 20)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(ManualClock())
    await namespaces.create_first(store)
    for topic in (ORDERS, BILLS):
        await topic_lifecycle.create(store, topic, topics.TopicRecord())
    yield store
    await store.close()


async def test_a_ledger_list_changes_only_by_swaps(store: EmbeddedStore) -> None:
    empty = await ledgers.get(store, ORDERS)
    assert (empty.list, empty.revision) == (LedgerList(), 0)
    first = LedgerList(1, (CLOSED,))
    revision = await ledgers.swap(store, ORDERS, empty.revision, first)
    assert revision is not None
    assert await ledgers.get(store, ORDERS) == ledgers.StoredLedgers(first, revision)
    second = LedgerList(2, (CLOSED, LedgerRef(7, 100)))
    assert await ledgers.swap(store, ORDERS, 0, second) is None
    assert await ledgers.swap(store, ORDERS, revision, second) is not None
    assert (await ledgers.get(store, ORDERS)).list == second


async def test_a_deleted_topic_gets_no_ledgers(store: EmbeddedStore) -> None:
    await topic_lifecycle.delete(store, ORDERS)
    assert await ledgers.swap(store, ORDERS, 0, LedgerList()) is None


def test_a_ledger_list_has_no_gap_no_overlap_and_nothing_twice() -> None:
    empty = LedgerRef(2, 100, 99, LedgerState.CLOSED)
    LedgerList(1, (CLOSED, empty, LedgerRef(3, 100), LedgerRef(4, 250)))
    for first in (99, 101):
        with pytest.raises(Refused, match="ends at offset 99"):
            LedgerList(1, (CLOSED, LedgerRef(2, first)))
    with pytest.raises(Refused, match="each ledger only once"):
        LedgerList(1, (CLOSED, LedgerRef(1, 100)))
    with pytest.raises(Refused, match="if, and only if, it is closed"):
        LedgerRef(1, 0, state=LedgerState.CLOSED)


async def test_ledger_ids_are_never_given_twice(store: EmbeddedStore) -> None:
    sources = [LedgerIds(store) for _ in range(4)]
    ids = await asyncio.gather(*(sources[number % 4].next() for number in range(200)))
    assert len(set(ids)) == 200
    assert min(ids) == 1
    restarted = await LedgerIds(store).next()
    assert restarted > max(ids)


async def test_a_subscription_is_made_with_its_cursor_and_deleted_with_it(
    store: EmbeddedStore,
) -> None:
    wanted = SubscriptionRecord(SubscriptionType.SHARED, created_us=3)
    name = "любое имя / any name"
    await subscriptions.create(store, ORDERS, name, wanted, CursorRecord(42))
    assert await subscriptions.get(store, ORDERS, name) == wanted
    assert await subscriptions.list_all(store, ORDERS) == {name: wanted}
    assert await cursors.list_all(store, ORDERS) == {name: CursorRecord(42)}
    assert await subscriptions.list_all(store, BILLS) == {}
    with pytest.raises(AlreadyExists, match="already exists"):
        await subscriptions.create(store, ORDERS, name, wanted, CursorRecord(0))
    assert await subscriptions.delete(store, ORDERS, name) is True
    assert await subscriptions.delete(store, ORDERS, name) is False
    assert await subscriptions.get(store, ORDERS, name) is None
    assert await cursors.get(store, ORDERS, name) is None


async def test_a_subscription_needs_a_topic_and_a_printable_name(store: EmbeddedStore) -> None:
    nowhere = TopicName.parse("/default/nowhere")
    with pytest.raises(NotFound, match="no topic /default/nowhere"):
        await subscriptions.create(store, nowhere, "s", SubscriptionRecord(), CursorRecord(0))
    with pytest.raises(Refused, match="printable"):
        await subscriptions.create(store, ORDERS, "a\nb", SubscriptionRecord(), CursorRecord(0))


async def test_a_failure_policy_has_danubes_defaults_and_can_be_replaced(
    store: EmbeddedStore,
) -> None:
    await subscriptions.create(store, ORDERS, "s", SubscriptionRecord(), CursorRecord(0))
    found = await subscriptions.get(store, ORDERS, "s")
    assert found is not None
    assert found.failure == FailurePolicy(5, 30_000, 1_000, 60_000)
    policy = FailurePolicy(poison=Poison.DEAD_LETTER, dead_letter_topic="/default/dead")
    await subscriptions.update_failure_policy(store, ORDERS, "s", lambda _: policy)
    assert await subscriptions.get(store, ORDERS, "s") == replace(found, failure=policy)
    with pytest.raises(NotFound, match="no subscription 'none'"):
        await subscriptions.update_failure_policy(store, ORDERS, "none", lambda _: policy)


def write(topic: TopicName, name: str, cursor: CursorRecord) -> CursorWrite:
    return CursorWrite(topic, name, cursor, (topics.exists(topic),))


async def test_many_cursors_are_stored_in_few_transactions(store: EmbeddedStore) -> None:
    before = (await store.range("")).revision
    cursor = CursorRecord(5, ((7, 9), (11, 11)), updated_us=1)
    writes = [write(ORDERS, f"s{number}", cursor) for number in range(300)]
    assert await cursors.put_all(store, writes) == []
    assert (await store.range("")).revision == before + 3
    found = await cursors.list_all(store, ORDERS)
    assert found == {f"s{number}": cursor for number in range(300)}


async def test_large_cursors_are_spread_over_transactions(store: EmbeddedStore) -> None:
    ranges = tuple((10**15 + 2 * number, 10**15 + 2 * number) for number in range(MAX_RANGES))
    cursor = CursorRecord(0, ranges)
    writes = [write(ORDERS, f"s{number}", cursor) for number in range(3)]
    assert await cursors.put_all(store, writes) == []
    assert await cursors.list_all(store, ORDERS) == {f"s{number}": cursor for number in range(3)}


async def test_cursors_of_a_deleted_or_lost_topic_are_refused_and_the_others_stored(
    store: EmbeddedStore,
) -> None:
    revision = await ledgers.swap(store, BILLS, 0, LedgerList(1))
    assert revision is not None
    await topic_lifecycle.delete(store, ORDERS)
    owned = ModRevisionIs(ledgers.key(BILLS), revision)
    lost = ModRevisionIs(ledgers.key(BILLS), revision - 1)
    writes = [
        write(ORDERS, "deleted", CursorRecord(1)),
        CursorWrite(BILLS, "owned", CursorRecord(2), (owned,)),
        CursorWrite(BILLS, "lost", CursorRecord(3), (lost,)),
    ]
    assert await cursors.put_all(store, writes) == [writes[0], writes[2]]
    assert await cursors.list_all(store, ORDERS) == {}
    assert await cursors.list_all(store, BILLS) == {"owned": CursorRecord(2)}


@pytest.mark.parametrize(
    "acked", [((5, 6),), ((4, 4),), ((8, 7),), ((7, 8), (9, 9)), ((9, 9), (7, 7))]
)
def test_a_cursor_has_its_ranges_above_it_ascending_and_apart(
    acked: tuple[tuple[int, int], ...],
) -> None:
    CursorRecord(5, ((6, 6), (8, 9)))
    with pytest.raises(Refused, match="ascending and not adjacent"):
        CursorRecord(5, acked)


def test_a_cursor_with_too_many_ranges_is_too_large() -> None:
    with pytest.raises(TooLarge, match="acknowledged ranges"):
        CursorRecord(0, tuple((2 * number, 2 * number) for number in range(1, MAX_RANGES + 2)))
