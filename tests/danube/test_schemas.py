"""Schemas with the stock client: it names one to publish by, and is held to that."""

from __future__ import annotations

import json

import pytest

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


async def send_for_ever(producer: StockProducer, payload: str) -> None:
    """A change of a topic's rules holds as soon as the watch tells it."""
    while True:
        await producer.send(payload)
