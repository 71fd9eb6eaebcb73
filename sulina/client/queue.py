"""What has arrived and was not handed to the application yet, and the credit that bounds it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sulina.client.feed import Feed


@dataclass(frozen=True, slots=True)
class Delivery:
    """A frame as it arrived. It is opened when the application takes it: until then it is as
    small as it was on the wire."""

    feed: Feed
    data: memoryview
    mask: int | None
    """Which of its records are meant; None: all."""
    attempt: int


class Inbox:
    """The deliveries of all partitions in the order of their arrival."""

    def __init__(self) -> None:
        self._deliveries: deque[Delivery] = deque()
        self._news = asyncio.Event()

    def put(self, delivery: Delivery) -> None:
        """One more, behind all others."""
        self._deliveries.append(delivery)
        self._news.set()

    def first(self) -> Delivery | None:
        """The oldest one, which stays."""
        if self._deliveries:
            return self._deliveries[0]
        self._news.clear()
        return None

    def remove_first(self) -> None:
        """Take the oldest one out."""
        self._deliveries.popleft()

    def drop(self, feed: Feed) -> list[Delivery]:
        """Take out all that came from ``feed``."""
        dropped = [delivery for delivery in self._deliveries if delivery.feed is feed]
        if dropped:
            kept = (delivery for delivery in self._deliveries if delivery.feed is not feed)
            self._deliveries = deque(kept)
        return dropped

    def clear(self) -> None:
        """Forget everything."""
        self._deliveries.clear()

    def wake(self) -> None:
        """Let everyone who waits look again."""
        self._news.set()

    async def news(self) -> None:
        """Wait for a delivery, or to be woken. Only after :meth:`first` found nothing."""
        await self._news.wait()


class Credit:
    """How much a broker may send. What the application has taken is given back in lumps of half
    the whole, so that few commands go over and the broker never runs dry. Pure."""

    __slots__ = ("_bytes", "_records", "_used_bytes", "_used_records")

    def __init__(self, records: int, bytes_: int) -> None:
        self._records = records
        self._bytes = bytes_
        self._used_records = self._used_bytes = 0

    def begin(self) -> tuple[int, int]:
        """The records and bytes to grant to a broker that has none yet."""
        self._used_records = self._used_bytes = 0
        return self._records, self._bytes

    def use(self, records: int, bytes_: int) -> tuple[int, int] | None:
        """So much was taken. What to grant now, if it is time to."""
        self._used_records += records
        self._used_bytes += bytes_
        if 2 * self._used_records < self._records and 2 * self._used_bytes < self._bytes:
            return None
        granted = self._used_records, self._used_bytes
        self._used_records = self._used_bytes = 0
        return granted
