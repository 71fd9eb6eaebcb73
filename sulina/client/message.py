"""What a consumer hands to the application: messages, and batches of them.

A batch is one frame as it was delivered; its columns are lists, made natively for the whole frame.
A message is a view of one record of a batch and keeps the batch in memory for as long as it lives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final

from sulina.wire import selection
from sulina.wire.decode import Frame

if TYPE_CHECKING:
    from sulina.client.feed import Feed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Message:
    """One record. Cheap to make: everything but the payload is looked up when asked for."""

    __slots__ = ("batch", "index", "payload")

    def __init__(self, batch: Batch, index: int, payload: bytes) -> None:
        self.batch = batch
        """The batch it came in."""
        self.index = index
        """Its place in the batch."""
        self.payload = payload
        """The bytes that were published."""

    @property
    def key(self) -> bytes | None:
        """The key it was published with, if any."""
        keys = self.batch.keys
        return None if keys is None else keys[self.index]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes it was published with."""
        attributes = self.batch.attributes
        return {} if attributes is None else attributes[self.index]

    @property
    def offset(self) -> int:
        """Its place in the topic, or partition."""
        return self.batch.offsets[self.index]

    @property
    def publish_time_us(self) -> int:
        """When it was published, by the producer's clock: microseconds since 1970."""
        return self.batch.times[self.index]

    @property
    def publish_time(self) -> datetime:
        """When it was published, by the producer's clock, in UTC."""
        return _EPOCH + timedelta(microseconds=self.publish_time_us)

    @property
    def topic(self) -> str:
        """The topic it came from; of a partitioned topic, the partition's full name."""
        return self.batch.topic

    @property
    def partition(self) -> int | None:
        """The number of the partition it came from, or None if the topic has none."""
        return self.batch.partition

    @property
    def attempt(self) -> int:
        """1 for the first delivery, more after each that was not acknowledged."""
        return self.batch.attempt

    @property
    def producer(self) -> str:
        """The name of the producer."""
        return self.batch.producer

    @property
    def sequence(self) -> int:
        """Its number among all records of the producer in this topic."""
        batch = self.batch
        return batch.frame.header.first_sequence + self.offset - batch.frame.header.base_offset

    @property
    def schema_id(self) -> int:
        """The schema it was published with; 0 is none."""
        return self.batch.frame.header.schema_id

    @property
    def schema_version(self) -> int:
        """The version of that schema."""
        return self.batch.frame.header.schema_version

    def text(self) -> str:
        """The payload as UTF-8 text. Raises ``UnicodeDecodeError`` if it is none."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload parsed as JSON. Raises ``ValueError`` if it is none."""
        return json.loads(self.payload)

    def __repr__(self) -> str:
        return f"<Message {self.topic}@{self.offset} {self.payload[:40]!r}>"


class Batch:
    """The records of one delivery. Columns have an entry for each; iterating makes messages."""

    def __init__(
        self,
        frame: Frame,
        topic: str,
        partition: int | None,
        *,
        mask: int | None = None,
        attempt: int = 1,
        feed: Feed | None = None,
        generation: int = 0,
    ) -> None:
        self.frame = frame
        self.topic = topic
        """The topic or, of a partitioned topic, the partition."""
        self.partition = partition
        self.attempt = attempt
        self.mask = None if mask == selection.whole(frame.count) else mask
        """Which records of the frame are meant; None: all."""
        self.feed = feed
        self.generation = generation

    def narrowed(self, mask: int) -> Batch:
        """The same delivery with only these records of the frame."""
        return Batch(
            self.frame,
            self.topic,
            self.partition,
            mask=mask,
            attempt=self.attempt,
            feed=self.feed,
            generation=self.generation,
        )

    @property
    def producer(self) -> str:
        """The name of the producer of all these records."""
        return self.frame.producer_name

    @cached_property
    def payloads(self) -> list[bytes]:
        """What was published."""
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
        """When each record was published: microseconds since 1970."""
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
