"""Records as JSON, keys from names, and the desired states of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import CorruptEntry, Refused
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import cursors, ledgers, members, path, record, subscriptions
from sulina.metadata.keys.members import BrokerMode, BrokerState
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from tests.metadata.manual_clock import ManualClock


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    number: int = 7
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    colour: Colour = Colour.RED
    ratio: float = 0.5
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


def read(value: bytes) -> Outer:
    return record.decode(Outer, KeyValue("/outer", value, 2, 2, 1, 0))


@given(
    st.builds(
        Outer,
        name=st.text(st.characters(codec="utf-8")),
        inner=st.builds(Inner, note=st.none() | st.text(st.characters(codec="utf-8"))),
        many=st.lists(st.builds(Inner)).map(tuple),
        pairs=st.lists(st.tuples(st.integers(), st.integers())).map(tuple),
    )
)
def test_a_record_is_read_as_it_was_written(outer: Outer) -> None:
    assert read(record.encode(outer)) == outer


def test_unknown_fields_are_ignored_and_missing_ones_take_their_defaults() -> None:
    value = b'{"name":"n","new":[1],"inner":{"newer":{}},"many":[{},{"number":1,"x":2}]}'
    assert read(value) == Outer("n", many=(Inner(), Inner(1)))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"name":1}',
        b'{"name":"n","colour":"green"}',
        b'{"name":"n","inner":[]}',
        b'{"name":"n","inner":{"number":true}}',
        b'{"name":"n","many":{}}',
        b'{"name":"n","pairs":[[1]]}',
        b'{"name":"n","pairs":[[1,2,3]]}',
    ],
)
def test_what_is_no_record_gives_one_clear_error(value: bytes) -> None:
    with pytest.raises(CorruptEntry, match="the metadata at /outer cannot be read"):
        read(value)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_name_makes_one_part_of_a_key_and_comes_back(name: str) -> None:
    part = path.part(name)
    assert "/" not in part
    assert part.isascii()
    assert path.name_of(part) == name


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(Refused):
        path.part("\ud800")


def test_keys_are_where_the_design_says() -> None:
    topic = TopicName.parse("/default/orders")
    assert path.topic_root(topic) == "/topics/default/orders/"
    assert ledgers.key(topic) == "/state/default/orders/ledgers"
    assert cursors.key(topic, "a b/c") == "/state/default/orders/cursors/a%20b%2Fc"
    assert subscriptions.key(topic, "ü") == "/topics/default/orders/subscriptions/%C3%BC"


DRAINING = BrokerState(BrokerMode.DRAINING)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(ManualClock())
    yield store
    await store.close()


async def test_of_two_brokers_drained_at_the_same_time_one_stays_active(
    store: EmbeddedStore,
) -> None:
    outcomes = await asyncio.gather(
        members.set_state(store, "one", DRAINING, ["two"]),
        members.set_state(store, "two", DRAINING, ["one"]),
        return_exceptions=True,
    )
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert isinstance(refused, Refused)
    assert "is the only active broker" in str(refused)


async def test_a_broker_is_drained_again_once_another_is_active(store: EmbeddedStore) -> None:
    await members.set_state(store, "one", DRAINING, ["two"])
    with pytest.raises(Refused, match="two is the only active broker"):
        await members.set_state(store, "two", DRAINING, ["one"])
    await members.set_state(store, "one", BrokerState(), ["two"])
    await members.set_state(store, "two", DRAINING, ["one"])
