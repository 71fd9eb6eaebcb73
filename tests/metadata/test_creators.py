"""Who created something is stored with it, in a way that versions without the field read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sulina.errors import AlreadyExists
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import namespaces, record, topic_lifecycle, topics
from sulina.metadata.keys.schemas import IdRecord, SubjectRecord
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.keys.topics import TopicRecord, TopicState
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from tests.metadata.manual_clock import ManualClock

ORDERS = TopicName.parse("/default/orders")
TOPIC = (
    b'{"delivery":"reliable","partitions":0,"partition_of":"","created_us":5,"policy":{},'
    b'"state":"deleting","expected_records":0,"expected_bytes":0}'
)
SUBSCRIPTION = (
    b'{"type":"shared","created_us":5,"failure":{"max_redelivery_count":5,"ack_timeout_ms":30000,'
    b'"base_redelivery_delay_ms":1000,"max_redelivery_delay_ms":60000,"backoff":"exponential",'
    b'"poison":"block","dead_letter_topic":""},"max_unacked":0}'
)
SUBJECT = (
    b'{"id":1,"next_version":2,"versions":[{"number":1,"type":"string","fingerprint":"f"}],'
    b'"compatibility":"backward","tags":[],"created_us":5}'
)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(ManualClock())
    await namespaces.create_first(store)
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TopicRecord, TOPIC),
        (SubscriptionRecord, SUBSCRIPTION),
        (SubjectRecord, SUBJECT),
        (IdRecord, b'{"subject":"s","versions":[1]}'),
    ],
)
def test_records_of_earlier_versions_name_nobody_and_keep_their_bytes(
    kind: type[Any], value: bytes
) -> None:
    found = record.decode(kind, KeyValue("/k", value, 1, 1, 1, 0))
    # Deletions compare the bytes of a topic's record; this one has a field that came later.
    written = value.replace(b'_topic":""}', b'_topic":"","dead_letter_expired":false}')
    assert found.created_by is None and record.encode(found) == written
    # Earlier versions ignore the field; this is how they, too, ignore one that they do not know.
    unknown = value[:-1] + b',"of_a_later_version":"x"}'
    assert record.decode(kind, KeyValue("/k", unknown, 1, 1, 1, 0)) == found
    named = replace(found, created_by="shop")
    assert record.decode(kind, KeyValue("/k", record.encode(named), 1, 1, 1, 0)) == named


async def test_a_deletion_that_an_earlier_version_began_is_finished(store: EmbeddedStore) -> None:
    await store.put(topics.key(ORDERS), TOPIC)
    await topic_lifecycle.delete(store, ORDERS)
    assert await topics.get(store, ORDERS) is None


async def test_somebody_else_may_finish_a_creation(store: EmbeddedStore) -> None:
    begun = TopicRecord(partitions=2, created_by="one")
    await store.put(topics.key(ORDERS), record.encode(replace(begun, state=TopicState.CREATING)))
    await topic_lifecycle.create(store, ORDERS, replace(begun, created_by="other"))
    found = await topics.list_all(store, "default")
    assert len(found) == 3 and {each.created_by for each in found.values()} == {"one"}
    with pytest.raises(AlreadyExists):
        await topic_lifecycle.create(store, ORDERS, begun)


async def test_added_partitions_name_who_added_them(store: EmbeddedStore) -> None:
    await topic_lifecycle.create(store, ORDERS, TopicRecord(partitions=1, created_by="one"))
    await topic_lifecycle.grow(store, ORDERS, 3, "other")
    found = await topics.list_all(store, "default")
    made = [found[ORDERS.partition(number)].created_by for number in range(3)]
    assert (found[ORDERS].created_by, made) == ("one", ["one", "other", "other"])
