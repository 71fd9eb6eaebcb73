"""Schemas with the stock client: its messages must match the schema it names."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import pytest

import sulina
from sulina.client.codecs import codec_of
from sulina.model import Start
from tests.danube.brokers import OneBroker
from tests.danube.stock import StockClient, StockError, StockProducer


def shape(*required: str) -> str:
    """A JSON Schema of objects that may have a name and an age."""
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
    return json.dumps({"type": "object", "properties": properties, "required": list(required)})


@pytest.mark.parametrize(
    ("how", "version"),
    [
        (("with_schema_subject",), 2),
        (("with_schema_version", 1), 1),
        (("with_schema_version", 2), 2),
        (("with_schema_min_version", 2), 2),
    ],
    ids=["latest", "pinned to the first", "pinned to the last", "at least"],
)
async def test_messages_carry_the_version_that_was_asked_for(
    client: StockClient, topic: str, how: tuple[object, ...], version: int
) -> None:
    subject = topic.strip("/").replace("/", "-")
    first = await client.register(subject, shape("name", "age"))
    assert await client.register(subject, shape("name")) == first
    method, *arguments = how
    producer = await client.producer(topic, schema=(method, subject, *arguments))
    consumer = await client.consumer(topic)
    await producer.send('{"name": "Ada", "age": 36}')
    assert (await consumer.take()).schema == [first, version]


async def test_a_topic_belongs_to_the_subject_of_its_first_producer(
    client: StockClient, topic: str
) -> None:
    mine, other = (f"{topic.strip('/').replace('/', '-')}-{which}" for which in ("mine", "other"))
    await client.register(mine, shape())
    await client.register(other, shape())
    await client.producer(topic, schema=("with_schema_subject", mine))
    with pytest.raises(StockError, match="FAILED_PRECONDITION"):
        await client.producer(topic, "second", schema=("with_schema_subject", other))


async def test_what_is_not_as_the_schema_says_is_refused_if_the_topic_wants_that(
    client: StockClient, topic: str
) -> None:
    subject = topic.strip("/").replace("/", "-")
    await client.register(subject, shape("name"))
    producer = await client.producer(topic, schema=("with_schema_subject", subject))
    await client.enforce(topic, subject)
    consumer = await client.consumer(topic)
    with pytest.raises(StockError, match="INVALID_ARGUMENT"):
        await send_for_ever(producer, '{"age": 36}')
    await producer.send('{"name": "Ada"}')
    while (await consumer.take()).payload != '{"name": "Ada"}':
        pass


@dataclass(frozen=True)
class Person:
    """The same that ``shape("name")`` describes, as a class."""

    name: str
    age: int | None = None


async def test_what_a_stock_client_writes_with_a_schema_is_a_value_for_a_native_one(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    subject = topic.strip("/").replace("/", ".")
    schema_id = await client.register(subject, codec_of(Person).definition)
    producer = await client.producer(topic, "stock", schema=("with_schema_subject", subject))
    await client.enforce(topic, subject)
    began_us = time.time_ns() // 1000
    await producer.send('{"name": "Ada", "age": 36}', {"a": "1"}, key="k")
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "s", start=Start.earliest(), schema=Person) as consumer,
    ):
        message = await consumer.receive(30)
        assert message.value == Person("Ada", 36)
        assert (message.key, message.attributes, message.producer) == (b"k", {"a": "1"}, "stock")
        assert (message.schema_id, message.schema_version) == (schema_id, 1)
        assert began_us - 2000 < message.publish_time_us <= time.time_ns() // 1000
        # Its class is the schema that is there, so nothing new is registered for it.
        async with native.producer(topic, schema=Person) as typed:
            assert (typed.schema_id, typed.schema_version) == (schema_id, 1)


async def test_what_a_native_client_writes_with_a_schema_a_stock_one_reads(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    async with (
        sulina.connect(broker.native_url) as native,
        native.producer(topic, name="native", schema=Person) as producer,
    ):
        consumer = await client.consumer(topic)
        at_us = 1_700_000_000_123_456
        await (
            await producer.send(
                Person("Ada"), key="k", attributes={"a": "1"}, publish_time_us=at_us
            )
        )
        names = [producer.schema_id, producer.schema_version]
    [message] = await consumer.take_all(1)
    assert json.loads(message.payload) == {"name": "Ada", "age": None}
    assert (message.key, message.attributes, message.producer) == ("k", {"a": "1"}, "native")
    assert (message.schema, message.publish_time) == (names, at_us // 1000)
    # A stock producer that names the subject writes with the same version.
    subject = topic.strip("/").replace("/", ".")
    stock = await client.producer(topic, schema=("with_schema_subject", subject))
    await stock.send('{"name": "Bob"}')
    assert [each.schema for each in await consumer.take_all(1)] == [names]


async def send_for_ever(producer: StockProducer, payload: str) -> None:
    """A change of a topic's rules holds as soon as the watch tells it."""
    while True:
        await producer.send(payload)
