"""Received messages, and batches of them.

A batch is one delivered frame; its columns are lists, decoded natively for the whole frame. A
message is a view of one record of a batch, and keeps the whole batch in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count, repeat
from typing import Any, Final

from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.tombstones import is_tombstone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Message:
    """One received record. Everything but the payload is decoded on first access.

    A message keeps the batch that it came in, and thereby the whole frame, in memory.
    """

    __slots__ = ("batch", "index", "payload")

    def __init__(self, batch: Batch, index: int, payload: bytes) -> None:
        self.batch = batch
        """The batch that contains the message."""
        self.index = index
        """Its index in the batch."""
        self.payload = payload
        """The published bytes."""

    @property
    def key(self) -> bytes | None:
        """The key that it was published with, or None."""
        keys = self.batch.keys
        return None if keys is None else keys[self.index]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that it was published with."""
        attributes = self.batch.attributes
        return {} if attributes is None else attributes[self.index]

    @property
    def is_tombstone(self) -> bool:
        """Whether it was published without a payload, to delete the value of its key."""
        return is_tombstone(self.payload, self.attributes)

    @property
    def offset(self) -> int:
        """Its offset in the topic or partition."""
        return self.batch.offsets[self.index]

    @property
    def publish_time_us(self) -> int:
        """The publish time by the producer's clock, in microseconds since 1970 (UTC)."""
        return self.batch.times[self.index]

    @property
    def publish_time(self) -> datetime:
        """The publish time by the producer's clock, in UTC."""
        return _EPOCH + timedelta(microseconds=self.publish_time_us)

    @property
    def deliver_at(self) -> datetime | None:
        """The time that it was delayed until, in UTC, or None."""
        return _time(self.batch.frame.due_us)

    @property
    def expires_at(self) -> datetime | None:
        """Its own expiry time, in UTC, or None. Its topic may also have a time to live."""
        return _time(self.batch.frame.expires_us)

    @property
    def topic(self) -> str:
        """The topic that it came from; for a partitioned topic, the partition's full name."""
        return self.batch.topic

    @property
    def partition(self) -> int | None:
        """The number of its partition, or None if the topic is not partitioned."""
        return self.batch.partition

    @property
    def attempt(self) -> int:
        """1 for the first delivery; one more for each redelivery."""
        return self.batch.attempt

    @property
    def producer(self) -> str:
        """The name of the producer that published it."""
        return self.batch.producers[self.index]

    @property
    def sequence(self) -> int:
        """Its number among the producer's records in this topic or partition."""
        batch = self.batch
        return batch.frame.header.first_sequence + self.offset - batch.frame.header.base_offset

    @property
    def schema_id(self) -> int:
        """The id of the schema that it was published with; 0 means none."""
        return self.batch.frame.header.schema_id

    @property
    def schema_version(self) -> int:
        """The version of its schema."""
        return self.batch.frame.header.schema_version

    def text(self) -> str:
        """The payload decoded as UTF-8. Raises ``UnicodeDecodeError``."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload parsed as JSON. Raises ``ValueError``."""
        return json.loads(self.payload)

    def __repr__(self) -> str:
        return f"<Message {self.topic}@{self.offset} {self.payload[:40]!r}>"


def _time(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)


class Batch:
    """The records of one delivery.

    ``payloads``, ``keys``, ``attributes``, ``times``, ``offsets`` and ``producers`` are columns
    with one entry per record. Iterating over a batch yields messages.
    """

    def __init__(
        self,
        frame: Frame,
        topic: str,
        partition: int | None,
        *,
        mask: int | None = None,
        attempt: int = 1,
        source: object = None,
        generation: int = 0,
    ) -> None:
        self.frame = frame
        self.topic = topic
        """The topic; for a partitioned topic, the partition's full name."""
        self.partition = partition
        self.attempt = attempt
        self.mask = None if mask == selection.whole(frame.count) else mask
        """The selected records of the frame as a bit mask; None means all."""
        self.source = source
        """The part of a consumer that received it, which alone can acknowledge it."""
        self.generation = generation

    def narrowed(self, mask: int) -> Batch:
        """The same delivery, with only the records of the frame that ``mask`` selects."""
        return Batch(
            self.frame,
            self.topic,
            self.partition,
            mask=mask,
            attempt=self.attempt,
            source=self.source,
            generation=self.generation,
        )

    @property
    def producer(self) -> str:
        """The name of the producer of all records; empty if they have several."""
        return self.frame.producer_name

    @cached_property
    def producers(self) -> list[str]:
        """The name of each record's producer."""
        return self._picked(self.frame.producers)

    @cached_property
    def payloads(self) -> list[bytes]:
        """The published bytes of each record."""
        return self._picked(self.frame.payloads)

    @cached_property
    def keys(self) -> list[bytes | None] | None:
        """The key of each record, or None if no record of the frame has one."""
        return None if self.frame.keys is None else self._picked(self.frame.keys)

    @cached_property
    def attributes(self) -> list[dict[str, str]] | None:
        """The attributes of each record, or None if no record of the frame has any."""
        attributes = self.frame.attributes
        return None if attributes is None else self._picked(attributes)

    @cached_property
    def times(self) -> list[int]:
        """The publish time of each record, in microseconds since 1970 (UTC)."""
        return self._picked(self.frame.times)

    @cached_property
    def offsets(self) -> Sequence[int]:
        """The offset of each record."""
        header = self.frame.header
        if self.mask is None:
            return range(header.base_offset, header.next_offset)
        return [header.base_offset + index for index in selection.indices(self.mask)]

    def _picked(self, values: list[Any]) -> list[Any]:
        return values if self.mask is None else selection.pick(values, self.mask)

    def __len__(self) -> int:
        return self.frame.count if self.mask is None else self.mask.bit_count()

    def __iter__(self) -> Iterator[Message]:
        return map(Message, repeat(self), count(), self.payloads)

    def __repr__(self) -> str:
        return f"<Batch {self.topic}@{self.frame.header.base_offset} of {len(self)} messages>"
