"""Publishes a single frame from within the broker: a dead letter or a message from HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker_containers.topics.topic import Topic
from sulina.errors import SulinaError
from sulina.wire.header import check_frame

MakeFrame = Callable[[int], bytes]
"""Makes a frame whose first record has the given sequence."""


class SingleOutcome:
    """A producer's sink that receives the outcome of one frame."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(base_offsets[0])

    def publish_failed(self, number: int, error: SulinaError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def closed(self, reason: SulinaError) -> None:
        """Nothing to do: a topic finishes accepted frames, so the outcome still arrives."""


async def publish_one(topic: Topic, name: str, make: MakeFrame) -> int:
    """Publish one frame to an open topic; durable when this returns its offset."""
    sink = SingleOutcome()
    producer = await topic.attach(name, sink, exclusive=False)
    try:
        data = memoryview(bytearray(make(topic.log.dedup.last_sequence(producer.id) + 1)))
        topic.publish(producer, 0, data, check_frame(data))
        return await sink.outcome
    finally:
        topic.detach(producer)
