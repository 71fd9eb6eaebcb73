"""Turns records that failed too often into records of the dead-letter topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from broker_containers.subscriptions.dispatcher import DeadLetter
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from sulina.errors import SulinaError
from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import check_frame

MakeFrame = Callable[[int], bytes]
"""Makes a frame whose first record has the given sequence."""


def dead_letter_frame(
    letter: DeadLetter,
    frame: CachedFrame,
    topic: str,
    subscription: str,
    broker_id: str,
    sequence: int,
) -> bytes:
    """A frame of the letter's records: same payloads and keys, and where they come from."""
    opened = Frame(frame.data)
    chosen = selection.indices(letter.mask)
    origin = {
        "x-original-topic": topic,
        "x-original-subscription": subscription,
        "x-original-producer-id": str(opened.header.producer_id),
        "x-original-broker-addr": broker_id,
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(letter.attempt),
        "x-failure-reason": letter.reason,
    }
    attributes = [
        {
            **(opened.attributes[index] if opened.attributes else {}),
            **origin,
            "x-original-topic-offset": str(letter.base + index),
        }
        for index in chosen
    ]
    keys: Sequence[bytes | None] | None = opened.keys
    return encode_frame(
        Origin(
            dead_letter_producer(topic, subscription),
            opened.header.schema_id,
            opened.header.schema_version,
        ),
        sequence,
        [opened.payloads[index] for index in chosen],
        [opened.times[index] for index in chosen],
        keys=[keys[index] for index in chosen] if keys else None,
        attributes=attributes,
    )


def dead_letter_producer(topic: str, subscription: str) -> str:
    """The name under which a subscription publishes its dead letters."""
    return f"dead-letters:{topic}:{subscription}"[:255]


class OneFrame:
    """A producer's sink that waits for the outcome of one frame."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(base_offsets[0])

    def publish_failed(self, number: int, error: SulinaError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def closed(self, reason: SulinaError) -> None:
        """Nothing to do: a topic finishes what is under way, so the outcome comes all the same."""


async def publish_one(topic: Topic, name: str, make: MakeFrame) -> int:
    """Publish one frame to a topic of this broker; durable when this returns its offset."""
    sink = OneFrame()
    producer: TopicProducer = await topic.attach(name, sink, exclusive=False)
    try:
        data = memoryview(bytearray(make(topic.log.dedup.last_sequence(producer.id) + 1)))
        topic.publish(producer, 0, data, check_frame(data))
        return await sink.outcome
    finally:
        topic.detach(producer)
