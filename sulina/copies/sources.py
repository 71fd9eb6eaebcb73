"""Where a copy comes from: the records of one partition, in the order of their offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Protocol

from sulina.client.message import Batch
from sulina.model import Start
from sulina.wire import selection
from sulina.wire.limits import MAX_RECORDS

if TYPE_CHECKING:
    from sulina.client.client import Client

_BYTES_AT_ONCE: Final = 4 << 20


class CopySource(Protocol):
    """The records of one partition, or of a topic without partitions."""

    @property
    def name(self) -> str:
        """The topic, or the partition's full name."""
        ...

    @property
    def start(self) -> int:
        """The offset of the first record to copy."""
        ...

    @property
    def end(self) -> int:
        """The offset after the last record to copy."""
        ...

    def read(self, offset: int) -> AsyncIterator[Batch]:
        """Batches from ``offset`` on, up to the end. Memory is bounded by a few megabytes."""
        ...


class TopicSource:
    """Reads from a broker, without a subscription. Create it with ``open``."""

    def __init__(self, client: Client, name: str, start: int, end: int) -> None:
        self._client = client
        self.name = name
        self.start = start
        self.end = end

    @classmethod
    async def open(
        cls, client: Client, name: str, start: Start, until: Start | None
    ) -> TopicSource:
        """Find out which offsets are meant now; records published later are not copied."""
        first = await _offset(client, name, start)
        end = await _offset(client, name, Start.latest() if until is None else until)
        return cls(client, name, first, max(first, end))

    async def read(self, offset: int) -> AsyncIterator[Batch]:
        while offset < self.end:
            found = await self._client.read(
                self.name,
                Start.offset(offset),
                max_records=MAX_RECORDS,
                max_bytes=_BYTES_AT_ONCE,
            )
            for batch in found:
                yield before(batch, self.end)
            if found.next_offset <= offset or found.at_end:
                return
            offset = found.next_offset


async def _offset(client: Client, name: str, start: Start) -> int:
    """The offset at which ``start`` begins."""
    found = await client.read(name, start, max_records=1)
    for batch in found:
        return batch.offsets[0]
    return found.next_offset


def before(batch: Batch, end: int) -> Batch:
    """The records of ``batch`` whose offsets are below ``end``."""
    count = min(max(end - batch.frame.header.base_offset, 0), batch.frame.count)
    wanted = selection.whole(count)
    return batch.narrowed(wanted if batch.mask is None else wanted & batch.mask)
