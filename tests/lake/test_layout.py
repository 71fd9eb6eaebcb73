"""Keys of objects: what they look like, how they sort, and what they tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import Refused
from sulina.lake.layout import (
    ObjectName,
    namespace_prefix,
    object_key,
    parse_key,
    topic_prefix,
)
from sulina.names import TopicName

ORDERS = TopicName("default", "orders")
NUMBERS = st.integers(0, (1 << 63) - 1)
NAMES = st.from_regex(r"[\w-]{1,20}", fullmatch=True)


def test_a_key_is_a_path_of_a_hive_table() -> None:
    assert object_key(ORDERS.partition(3), 1200, 45) == (
        "ledgers/namespace=default/topic=orders/partition=3/"
        "00000000000000001200-00000000000000000045.parquet"
    )


def test_a_topic_without_partitions_stands_at_partition_zero() -> None:
    assert object_key(ORDERS, 0, 1) == object_key(ORDERS.partition(0), 0, 1)
    assert parse_key(object_key(ORDERS, 0, 1)) == ObjectName("default", "orders", 0, 0, 1)


@given(NAMES, NAMES, st.none() | st.integers(0, 4095), NUMBERS, NUMBERS)
def test_a_key_tells_what_it_was_made_of(
    namespace: str, local: str, partition: int | None, first_offset: int, ledger: int
) -> None:
    topic = TopicName(namespace, local)
    if partition is not None:
        topic = topic.partition(partition)
    key = object_key(topic, first_offset, ledger)
    name = parse_key(key)
    base, number = topic.partition_of or (topic, 0)
    assert (name.namespace, name.topic, name.partition) == (base.namespace, base.local, number)
    assert (name.first_offset, name.ledger) == (first_offset, ledger)
    assert name.key == key
    assert key.startswith(topic_prefix(topic))
    assert key.startswith(topic_prefix(base))
    assert key.startswith(namespace_prefix(namespace))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2))
def test_keys_of_a_topic_sort_by_offset(places: list[tuple[int, int]]) -> None:
    keys = [object_key(ORDERS, offset, ledger) for offset, ledger in places]
    assert sorted(keys) == [object_key(ORDERS, *place) for place in sorted(places)]


def test_the_prefix_of_a_topic_is_not_that_of_one_whose_name_goes_on() -> None:
    longer = object_key(TopicName("default", "orders-late"), 0, 1)
    assert not longer.startswith(topic_prefix(ORDERS))
    eleventh = object_key(ORDERS.partition(11), 0, 1)
    assert not eleventh.startswith(topic_prefix(ORDERS.partition(1)))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ledgers/",
        object_key(ORDERS, 0, 1) + ".tmp",
        "x/" + object_key(ORDERS, 0, 1),
        object_key(ORDERS, 0, 1).replace("partition=0", "partition=00"),
        object_key(ORDERS, 0, 1).replace("topic=orders", "topic=or/ders"),
        object_key(ORDERS, 0, 1).replace("-0", "-", 1),
        object_key(ORDERS, 0, 1) + "\n",
    ],
)
def test_other_keys_are_refused_with_what_is_expected(key: str) -> None:
    with pytest.raises(Refused, match="20 digits"):
        parse_key(key)
