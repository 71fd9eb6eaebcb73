"""Classes as schemas: values come back as they were sent, and others are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from sulina import Refused, TypedConsumer, TypedProducer
from sulina.client.codecs import codec_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Item:
    name: str
    price: float
    size: Size = Size.SMALL


@dataclass(frozen=True)
class Order:
    id: int
    items: list[Item]
    at: datetime
    day: date
    customer: UUID
    scan: bytes = b""
    paid: bool = False
    note: str | None = None
    tags: dict[str, int] = field(default_factory=dict)
    marks: tuple[int, ...] = ()
    state: Literal["new", "done"] = "new"
    follows: Order | None = None


class Buyer(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


items = st.builds(Item, name=st.text(), price=st.floats(allow_nan=False, allow_infinity=False))
orders = st.recursive(
    st.none(),
    lambda inner: st.builds(
        Order,
        id=st.integers(),
        items=st.lists(items, max_size=3),
        at=st.datetimes(timezones=st.just(UTC)),
        day=st.dates(),
        customer=st.uuids(),
        scan=st.binary(),
        paid=st.booleans(),
        note=st.none() | st.text(),
        tags=st.dictionaries(st.text(), st.integers(), max_size=3),
        marks=st.lists(st.integers(), max_size=3).map(tuple),
        state=st.sampled_from(["new", "done"]),
        follows=inner,
    ),
    max_leaves=3,
).filter(lambda order: order is not None)


@given(orders)
def test_a_value_comes_back_as_it_was_and_is_valid_for_jsonschema(order: Order) -> None:
    codec = codec_of(Order)
    payload = codec.encode(order)
    Draft202012Validator(json.loads(codec.definition)).validate(json.loads(payload))
    assert codec.decode(payload) == order


def test_the_schema_of_a_dataclass_is_valid_and_says_what_is_needed() -> None:
    schema = json.loads(codec_of(Order).definition)
    Draft202012Validator.check_schema(schema)
    assert schema["$defs"]["Order"]["required"] == ["id", "items", "at", "day", "customer"]
    plain = json.loads(codec_of(Item).definition)
    assert "$defs" not in plain and plain["required"] == ["name", "price"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Item(5, 1.0), "name: 5 is not a valid str"),  # type: ignore[arg-type]
        (Item("x", "y"), "price: 'y' is not a valid float"),  # type: ignore[arg-type]
        (Item("x", float("nan")), "Out of range"),
        (Item("x", True), "price: True is not a valid float"),
        (Size.SMALL, "is not a valid Item"),
    ],
)
def test_a_value_that_is_not_as_its_class_says_is_refused(value: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        codec_of(Item).encode(value)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"not JSON", "cannot be decoded as Item"),
        (b"[]", "is not an object"),
        (b'{"name": "x"}', "price: this field is missing"),
        (b'{"name": "x", "price": 1, "size": "huge"}', "size: 'huge' is not a valid Size"),
    ],
)
def test_a_payload_of_another_kind_is_told_why(payload: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why):
        codec_of(Item).decode(payload)


@pytest.mark.parametrize("kind", [Order, Buyer])
def test_the_schema_has_the_fields_in_declared_order(kind: type) -> None:
    schema = json.loads(codec_of(kind).definition)
    properties = schema.get("properties") or schema["$defs"][kind.__name__]["properties"]
    assert list(properties) == list(kind.__annotations__)


def test_more_fields_are_ignored_and_missing_ones_take_their_defaults() -> None:
    found = codec_of(Item).decode(b'{"name": "x", "price": 1, "new": [1]}')
    assert found == Item("x", 1.0)


@dataclass
class Strange:
    what: complex


def test_what_has_no_json_is_told_with_what_has() -> None:
    with pytest.raises(Refused, match="is not supported"):
        codec_of(Strange)
    with pytest.raises(Refused, match="neither a pydantic model nor a dataclass"):
        codec_of(int)


@pytest.fixture
async def client(tmp_path: Path) -> Any:
    async with (
        run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server,
        sulina.connect(server.addresses.url) as connected,
    ):
        yield connected


async def test_typed_producers_and_consumers_share_a_schema(client: sulina.Client) -> None:
    topic = "/default/items"
    consumer: TypedConsumer[Item]
    producer: TypedProducer[Item]
    async with client.consumer(topic, "s", schema=Item) as consumer:
        async with client.producer(topic, schema=Item, name="shop") as producer:
            sent = [Item("first", 1.5, Size.LARGE), Item("second", 2.0)]
            await producer.send(sent[0], key="k", attributes={"a": "b"})
            await (await producer.send_many(sent[1:]))
            names = producer.schema_id, producer.schema_version
        first = await consumer.receive(30)
        assert (first.key, first.attributes, first.producer) == (b"k", {"a": "b"}, "shop")
        assert (first.schema_id, first.schema_version) == names
        second = await anext(aiter(consumer))
        assert [first.value, second.value] == sent
        await consumer.ack(first)
        await consumer.ack(second)
        await consumer.flush_acks()
    about = await client.admin("schema.topic", {"topic": topic})
    assert (about["subject"], about["validation"]) == ("default.items", "warn")
    assert len(await client.admin("schema.versions", {"subject": "default.items"})) == 1


async def test_a_pydantic_model_is_a_schema_that_brokers_enforce(client: sulina.Client) -> None:
    topic = "/default/buyers"
    async with (
        client.producer(topic, schema=Buyer, subject="buyers") as producer,
        client.consumer(topic, "s", schema=Buyer) as consumer,
    ):
        enforced = {"topic": topic, "validation": "enforce", "payload": True}
        await client.admin("schema.bind", enforced)
        await (await producer.send(Buyer(name="Ada", age=36)))
        assert (await consumer.receive(30)).value == Buyer(name="Ada", age=36)
        async with client.producer(
            topic, schema_id=producer.schema_id, schema_version=producer.schema_version
        ) as other:
            refused = await other.send(b'{"name": "Ada", "age": -1}')
            with pytest.raises(Refused, match="accepts only 'buyers' messages"):
                await refused
    with pytest.raises(Refused, match="is not a Buyer"):
        codec_of(Buyer).encode("Ada")
    with pytest.raises(Refused, match="cannot be decoded as Buyer"):
        codec_of(Buyer).decode(b"{}")


async def test_a_class_that_readers_would_not_understand_is_refused_before_it_is_used(
    client: sulina.Client,
) -> None:
    topic = "/default/changing"

    def version(kind: type[Any]) -> type[Any]:
        return dataclass(type("Thing", (), {"__annotations__": {"name": kind}}))

    async with client.producer(topic, schema=version(str)) as first:
        assert first.schema_version == 1
    with pytest.raises(Refused, match=r"not compatible.*name"):
        await client.producer(topic, schema=version(int)).open()
    async with client.producer(topic, schema=version(str | None)) as wider:  # type: ignore[arg-type]
        assert wider.schema_version == 2


async def test_a_topic_that_is_bound_to_another_subject_refuses(client: sulina.Client) -> None:
    topic = "/default/bound"
    async with client.producer(topic, schema=Item):
        pass
    with pytest.raises(Refused, match=r"bound to the schema subject 'default\.bound'"):
        await client.producer(topic, schema=Item, subject="another").open()
