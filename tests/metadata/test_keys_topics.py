"""Namespaces and topics in the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from sulina.errors import AlreadyExists, NotFound, Refused, Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import cursors, namespaces, subscriptions, topic_lifecycle, topics
from sulina.metadata.keys.policy import Policy, PolicyOverrides
from sulina.metadata.keys.topics import TopicRecord, TopicState
from sulina.metadata.store import Compare, Op, TxnResult
from sulina.model import Delivery
from sulina.names import TopicName
from tests.metadata.manual_clock import ManualClock

ORDERS = TopicName.parse("/default/orders")


class FailingStore(EmbeddedStore):
    """A store that can't be reached after a number of transactions."""

    left = 1_000_000

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        if self.left == 0:
            raise Unavailable("no metadata store answers: is it running?")
        self.left -= 1
        return await super().txn(compares, then, otherwise)


@pytest.fixture
async def store() -> AsyncIterator[FailingStore]:
    store = await FailingStore.open(ManualClock())
    await namespaces.create_first(store)
    yield store
    await store.close()


async def test_default_and_system_exist_from_the_beginning(store: FailingStore) -> None:
    assert await namespaces.list_names(store) == ["default", "system"]
    assert await namespaces.get_policy(store, "default") == Policy(max_message_size=10 * 1024**2)


async def test_beginning_again_keeps_what_was_set(store: FailingStore) -> None:
    await namespaces.update_policy(store, "default", {"retention_bytes": 5})
    await namespaces.create_first(store)
    assert await namespaces.get_policy(store, "default") == Policy(retention_bytes=5)


async def test_namespaces_are_made_once(store: FailingStore) -> None:
    await namespaces.create(store, "shop", Policy(max_producers_per_topic=9))
    assert await namespaces.get_policy(store, "shop") == Policy(max_producers_per_topic=9)
    with pytest.raises(AlreadyExists, match="'shop' already exists"):
        await namespaces.create(store, "shop", Policy())
    with pytest.raises(Refused):
        await namespaces.create(store, "a/b", Policy())


async def test_what_does_not_exist_is_said_to_be_missing(store: FailingStore) -> None:
    nobody = TopicName.parse("/none/topic")
    with pytest.raises(NotFound, match="no namespace 'none'"):
        await namespaces.get_policy(store, "none")
    with pytest.raises(NotFound):
        await namespaces.update_policy(store, "none", {"retention_ms": 1})
    with pytest.raises(NotFound):
        await namespaces.delete(store, "none")
    with pytest.raises(NotFound, match="no namespace 'none'"):
        await topic_lifecycle.create(store, nobody, TopicRecord())
    with pytest.raises(NotFound, match="no topic /default/orders"):
        await topic_lifecycle.delete(store, ORDERS)
    with pytest.raises(NotFound):
        await topics.update_policy(store, ORDERS, {"retention_ms": 1})
    with pytest.raises(NotFound):
        await topics.effective_policy(store, ORDERS)
    assert await topics.get(store, ORDERS) is None


async def test_a_namespace_is_deleted_only_without_topics(store: FailingStore) -> None:
    await namespaces.create(store, "shop", Policy())
    topic = TopicName.parse("/shop/orders")
    await topic_lifecycle.create(store, topic, TopicRecord())
    with pytest.raises(Refused, match="still has topics"):
        await namespaces.delete(store, "shop")
    await topic_lifecycle.create(store, TopicName.parse("/shop/more"), TopicRecord())
    for name in await topics.list_all(store, "shop"):
        await topic_lifecycle.delete(store, name)
    await namespaces.delete(store, "shop")
    assert await namespaces.list_names(store) == ["default", "system"]
    with pytest.raises(Refused, match="always exists"):
        await namespaces.delete(store, "default")


async def test_no_topic_slips_into_a_namespace_that_is_being_deleted(store: FailingStore) -> None:
    await namespaces.create(store, "shop", Policy())
    store.left = 1  # the deletion is interrupted after its first step
    with pytest.raises(Unavailable):
        await namespaces.delete(store, "shop")
    store.left = 1_000
    with pytest.raises(Refused, match="is being deleted"):
        await topic_lifecycle.create(store, TopicName.parse("/shop/orders"), TopicRecord())
    await namespaces.delete(store, "shop")
    assert (await store.range("/namespaces/shop/")).items == ()


async def test_a_namespace_and_a_topic_never_pass_each_other(store: FailingStore) -> None:
    topic = TopicName.parse("/shop/orders")
    for _ in range(5):
        await namespaces.create(store, "shop", Policy())
        made, gone = await asyncio.gather(
            topic_lifecycle.create(store, topic, TopicRecord()),
            namespaces.delete(store, "shop"),
            return_exceptions=True,
        )
        assert (made is None) != (gone is None)
        if made is None:
            await topic_lifecycle.delete(store, topic)
            await namespaces.delete(store, "shop")


async def test_a_topic_is_made_listed_and_deleted(store: FailingStore) -> None:
    wanted = TopicRecord(
        Delivery.NON_RELIABLE, created_us=5, policy=PolicyOverrides(retention_bytes=1)
    )
    await topic_lifecycle.create(store, ORDERS, wanted)
    assert await topics.get(store, ORDERS) == wanted
    assert await topics.list_all(store, "default") == {ORDERS: wanted}
    assert await topics.list_all(store, "system") == {}
    with pytest.raises(AlreadyExists, match="/default/orders already exists"):
        await topic_lifecycle.create(store, ORDERS, wanted)
    await topic_lifecycle.delete(store, ORDERS)
    assert await topics.list_all(store, "default") == {}


async def test_deleting_a_topic_takes_everything_beneath_it_and_no_neighbour(
    store: FailingStore,
) -> None:
    neighbour = TopicName.parse("/default/orders2")
    for topic in (ORDERS, neighbour):
        await topic_lifecycle.create(store, topic, TopicRecord())
        await store.put(subscriptions.key(topic, "s"), b"")
        await store.put(cursors.key(topic, "s"), b"")
    await topic_lifecycle.delete(store, ORDERS)
    left = await store.range("/")
    assert [item.key for item in left.items if "orders" in item.key] == [
        "/state/default/orders2/cursors/s",
        "/topics/default/orders2/subscriptions/s",
        "/topics/default/orders2/topic",
    ]


async def test_policies_of_a_topic_go_over_those_of_its_namespace(store: FailingStore) -> None:
    await namespaces.update_policy(
        store, "default", {"max_producers_per_topic": 10, "retention_bytes": 99}
    )
    await topic_lifecycle.create(store, ORDERS, TopicRecord(partitions=2))
    await topics.update_policy(store, ORDERS, {"max_producers_per_topic": 0, "retention_ms": 7})
    expected = Policy(max_producers_per_topic=0, retention_bytes=99, retention_ms=7)
    assert await topics.effective_policy(store, ORDERS) == expected
    assert await topics.effective_policy(store, ORDERS.partition(1)) == expected
    with pytest.raises(Refused, match="uses the policy of /default/orders: set it there"):
        await topics.update_policy(store, ORDERS.partition(1), {"retention_ms": 1})


async def test_updates_of_different_limits_do_not_undo_each_other(store: FailingStore) -> None:
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    changes = {"max_message_size": 1, "retention_ms": 2, "retention_bytes": 3}
    await asyncio.gather(
        *(namespaces.update_policy(store, "default", {name: changes[name]}) for name in changes),
        *(topics.update_policy(store, ORDERS, {name: changes[name] + 5}) for name in changes),
    )
    assert await namespaces.get_policy(store, "default") == Policy(
        max_message_size=1, retention_ms=2, retention_bytes=3
    )
    expected = PolicyOverrides(max_message_size=6, retention_ms=7, retention_bytes=8)
    assert await topics.update_policy(store, ORDERS, {}) == expected
    without = await topics.update_policy(store, ORDERS, {"retention_ms": None})
    assert without == replace(expected, retention_ms=None)


async def test_an_update_that_changes_nothing_writes_nothing(store: FailingStore) -> None:
    await namespaces.update_policy(store, "default", {"retention_ms": 2})
    store.left = 0
    await namespaces.update_policy(store, "default", {"retention_ms": 2})


def test_policies_cannot_be_negative() -> None:
    with pytest.raises(Refused, match="retention_bytes cannot be -1"):
        Policy(retention_bytes=-1)
    with pytest.raises(Refused, match="retention_bytes cannot be -1"):
        PolicyOverrides(retention_bytes=-1)


def test_a_topic_has_a_possible_number_of_partitions() -> None:
    with pytest.raises(Refused, match="partitions"):
        TopicRecord(partitions=-1)
    with pytest.raises(Refused, match="partitions"):
        TopicRecord(partitions=100_000)


PARTITIONS = 300  # several transactions


async def check_whole(store: EmbeddedStore, wanted: TopicRecord) -> None:
    found = await topics.list_all(store, "default")
    assert found.pop(ORDERS) == replace(wanted, state=TopicState.READY)
    partition = TopicRecord(wanted.delivery, partition_of=str(ORDERS), created_us=wanted.created_us)
    assert found == {ORDERS.partition(number): partition for number in range(wanted.partitions)}


async def test_a_partitioned_topic_comes_and_goes_with_its_partitions(store: FailingStore) -> None:
    wanted = TopicRecord(partitions=PARTITIONS, created_us=5)
    await topic_lifecycle.create(store, ORDERS, wanted)
    await check_whole(store, wanted)
    with pytest.raises(Refused, match="delete /default/orders instead"):
        await topic_lifecycle.delete(store, ORDERS.partition(3))
    with pytest.raises(Refused, match="create /default/orders instead"):
        await topic_lifecycle.create(
            store, ORDERS.partition(PARTITIONS), TopicRecord(partition_of=str(ORDERS))
        )
    await topic_lifecycle.delete(store, ORDERS)
    assert (await store.range("/topics/")).items == ()


async def test_an_interrupted_creation_is_finished_by_the_next(store: FailingStore) -> None:
    wanted = TopicRecord(partitions=PARTITIONS, created_us=5)
    for steps in range(5):
        store.left = steps
        with pytest.raises(Unavailable):
            await topic_lifecycle.create(store, ORDERS, wanted)
        store.left = 1_000
        found = await topics.get(store, ORDERS)
        assert found is None or found.state is TopicState.CREATING
        if found is not None:
            with pytest.raises(AlreadyExists):
                await topic_lifecycle.create(store, ORDERS, replace(wanted, partitions=1))
            with pytest.raises(Refused, match="not ready"):
                await topics.update_policy(store, ORDERS, {"retention_ms": 1})
        # The one who finishes it may have begun at another time.
        await topic_lifecycle.create(store, ORDERS, replace(wanted, created_us=5 + (steps > 0)))
        await check_whole(store, wanted)
        await topic_lifecycle.delete(store, ORDERS)


async def test_an_interrupted_deletion_is_finished_by_the_next(store: FailingStore) -> None:
    wanted = TopicRecord(partitions=PARTITIONS)
    for steps in range(8):
        await topic_lifecycle.create(store, ORDERS, wanted)
        store.left = steps
        with pytest.raises(Unavailable):
            await topic_lifecycle.delete(store, ORDERS)
        store.left = 1_000
        with pytest.raises(AlreadyExists):
            await topic_lifecycle.create(store, ORDERS, wanted)
        await topic_lifecycle.delete(store, ORDERS)
        assert (await store.range("/topics/")).items == ()


async def test_of_many_who_create_a_topic_one_kind_wins_and_is_whole(store: FailingStore) -> None:
    kinds = [TopicRecord(partitions=PARTITIONS), TopicRecord(partitions=3)] * 3
    outcomes = await asyncio.gather(
        *(topic_lifecycle.create(store, ORDERS, kind) for kind in kinds), return_exceptions=True
    )
    assert any(outcome is None for outcome in outcomes)
    assert all(outcome is None or isinstance(outcome, AlreadyExists) for outcome in outcomes)
    found = await topics.get(store, ORDERS)
    assert found is not None
    assert {
        kind.partitions for kind, outcome in zip(kinds, outcomes, strict=True) if not outcome
    } == {found.partitions}
    await check_whole(store, TopicRecord(partitions=found.partitions))


async def test_a_topic_with_a_partitions_name_is_neither_taken_nor_deleted(
    store: FailingStore,
) -> None:
    other = ORDERS.partition(200)
    await topic_lifecycle.create(store, other, TopicRecord(created_us=1))
    with pytest.raises(AlreadyExists, match="orders-part-200 already exists, but not"):
        await topic_lifecycle.create(store, ORDERS, TopicRecord(partitions=PARTITIONS))
    assert await topics.list_all(store, "default") == {other: TopicRecord(created_us=1)}
