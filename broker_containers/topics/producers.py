"""A producer of a topic: its frames, and their outcomes in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from broker_containers.quotas.quotas import Held
from sulina.errors import Refused, SulinaError
from sulina.wire.encode import producer_id

REPEATED = -1
"""Returned instead of an offset for a frame that was already stored."""


class ProducerSink(Protocol):
    """The producer's connection, over any protocol."""

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        """Consecutive frames are durable."""
        ...

    def publish_failed(self, number: int, error: SulinaError) -> None:
        """A frame was rejected. Unless the error is ``Refused``, later frames are rejected too."""
        ...

    def closed(self, reason: SulinaError) -> None:
        """The topic disconnects the producer."""
        ...


@dataclass(slots=True, eq=False)
class PublishOutcome:
    """The outcome of one frame, once it is known."""

    number: int
    offset: int | None = None
    error: SulinaError | None = None


class TopicProducer:
    """A connected producer. Outcomes are reported in batches, once per turn of the event loop."""

    def __init__(self, name: str, sink: ProducerSink, held: Held | None = None) -> None:
        """``held`` is its share of the quotas, which the topic releases."""
        self.name = name
        self.held = held
        self.id = producer_id(name)
        self.sink = sink
        self._slots: deque[PublishOutcome] = deque()
        self._telling = False
        self.broken: SulinaError | None = None

    def start(self, number: int) -> PublishOutcome:
        """A frame arrived. Its outcome must be passed to ``finish`` exactly once."""
        slot = PublishOutcome(number)
        self._slots.append(slot)
        return slot

    def finish(self, slot: PublishOutcome, outcome: int | SulinaError) -> None:
        if isinstance(outcome, SulinaError):
            # A traceback would keep the frame in memory.
            slot.error = outcome.with_traceback(None)
        else:
            slot.offset = outcome
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._telling = False
        first = 0
        offsets: list[int] = []
        while self._slots and (self._slots[0].offset is not None or self._slots[0].error):
            slot = self._slots.popleft()
            if slot.offset is not None and self.broken is None:
                first = first if offsets else slot.number
                offsets.append(slot.offset)
                continue
            if offsets:
                self.sink.published(first, offsets)
                offsets = []
            error = slot.error or self.broken
            assert error is not None
            if not isinstance(error, Refused):
                # It may succeed when it is sent again, and later frames must not overtake it.
                self.broken = error
            self.sink.publish_failed(slot.number, error)
        if offsets:
            self.sink.published(first, offsets)
