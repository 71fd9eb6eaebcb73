"""Received frames that the application has not taken yet, and the credit that limits them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from sulina.client.message import Batch


class FrameUnpacker(Protocol):
    """The part of a consumer that received a frame."""

    def unpack(self, delivery: ReceivedFrame) -> Batch | None:
        """Decode a frame that the application takes; None if it is corrupt."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """A delivered frame. It is decoded when the application takes it, and until then needs no more
    memory than on the wire."""

    part: FrameUnpacker
    data: memoryview
    mask: int | None
    """The selected records as a bit mask; None means all."""
    attempt: int


class Inbox:
    """The received frames of all partitions, in order of arrival."""

    def __init__(self) -> None:
        self._deliveries: deque[ReceivedFrame] = deque()
        self._news = asyncio.Event()

    def put(self, delivery: ReceivedFrame) -> None:
        """Add a frame at the end."""
        self._deliveries.append(delivery)
        self._news.set()

    def first(self) -> ReceivedFrame | None:
        """The oldest frame, which stays in the queue."""
        if self._deliveries:
            return self._deliveries[0]
        self._news.clear()
        return None

    def remove_first(self) -> None:
        """Remove the oldest frame."""
        self._deliveries.popleft()

    def drop(self, part: FrameUnpacker) -> list[ReceivedFrame]:
        """Remove and return all frames of ``part``."""
        dropped = [delivery for delivery in self._deliveries if delivery.part is part]
        if dropped:
            kept = (delivery for delivery in self._deliveries if delivery.part is not part)
            self._deliveries = deque(kept)
        return dropped

    def clear(self) -> None:
        self._deliveries.clear()

    def wake(self) -> None:
        """Let all waiting tasks check again."""
        self._news.set()

    async def news(self) -> None:
        """Wait for a frame or :meth:`wake`. Call it only after :meth:`first` returned None."""
        await self._news.wait()


class Credit:
    """How much a broker may send. Credit for taken messages is granted again in steps of half the
    total, so that few commands are sent and the broker never runs out of credit. Pure."""

    __slots__ = ("_bytes", "_records", "_used_bytes", "_used_records")

    def __init__(self, records: int, bytes_: int) -> None:
        self._records = records
        self._bytes = bytes_
        self._used_records = self._used_bytes = 0

    def begin(self) -> tuple[int, int]:
        """The initial grant for a new attachment: records and bytes."""
        self._used_records = self._used_bytes = 0
        return self._records, self._bytes

    def use(self, records: int, bytes_: int) -> tuple[int, int] | None:
        """Record what was taken. Returns the records and bytes to grant now, if any."""
        self._used_records += records
        self._used_bytes += bytes_
        if 2 * self._used_records < self._records and 2 * self._used_bytes < self._bytes:
            return None
        granted = self._used_records, self._used_bytes
        self._used_records = self._used_bytes = 0
        return granted
