"""Converts messages of Danube's protocol to records of frames; ``message_encoder`` converts back.

Keys, attributes, publish times (milliseconds in the protocol) and schemas are kept in both
directions, whichever door the other side uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.settings import MAX_MESSAGE_BYTES
from sulina.client.delays import expiry_time
from sulina.errors import Refused, TooLarge
from sulina.runtime.seam import Clock
from sulina.wire.encode import MAX_TIME_SPAN_US, Origin, encode_frame

EXPIRES_MS: Final = "x-expires-ms"
"""The attribute by which a message expires: Danube's protocol has no field for it."""
_MOST_DIGITS: Final = 15
_LATEST_MS: Final = (1 << 62) // 1000 - 1


class DanubeRecord(NamedTuple):
    """A message to be put into a frame. A tuple, because one is created per message."""

    payload: bytes
    key: bytes | None
    attributes: dict[str, str] | None
    time_us: int
    schema: tuple[int, int]
    """Id and version; zeros without a schema."""
    size: int
    """Approximate bytes in a frame."""
    expires_us: int | None = None
    """From the attribute ``EXPIRES_MS``."""

    def fits(self, first: DanubeRecord) -> bool:
        """Whether one frame can hold it and ``first``: same schema and expiry, times close."""
        return (
            self.schema == first.schema
            and self.expires_us == first.expires_us
            and 2 * abs(self.time_us - first.time_us) < MAX_TIME_SPAN_US
        )


def check_message_size(size: int) -> int:
    """The size of a message; raises ``TooLarge`` if stock clients could not receive it."""
    if size > MAX_MESSAGE_BYTES:
        raise TooLarge(
            f"a message of {size} bytes, attributes included, is over the limit of "
            f"{MAX_MESSAGE_BYTES}: consumers could not receive it"
        )
    return size


def record_of(message: pb.StreamMessage, size: int, clock: Clock) -> DanubeRecord:
    """The record of a message; published now if it has no publish time."""
    sent_ms = message.publish_time
    attributes = dict(message.attributes) if message.attributes else None
    return DanubeRecord(
        message.payload,
        message.routing_key.encode() if message.HasField("routing_key") else None,
        attributes,
        sent_ms * 1000 if 0 < sent_ms < _LATEST_MS else clock.wall_us(),
        (message.schema_id, message.schema_version),
        size,
        _expiry(attributes[EXPIRES_MS], clock)
        if attributes is not None and EXPIRES_MS in attributes
        else None,
    )


def _expiry(text: str, clock: Clock) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= _MOST_DIGITS and int(text)):
        raise Refused(
            f"the attribute {EXPIRES_MS} is a whole number of milliseconds above 0, not "
            f"{text[:40]!r}: correct it, or leave it out"
        )
    return expiry_time(int(text) / 1000, clock.wall_us())


def frame_of(
    producer: str,
    first_sequence: int,
    records: Sequence[DanubeRecord],
    producers: Sequence[str] | None = None,
) -> bytes:
    """A frame of records that all fit the first; ``producers`` as for ``encode_frame``."""
    if len(records) == 1:
        (alone,) = records
        return encode_frame(
            Origin(producer, *alone.schema),
            first_sequence,
            (alone.payload,),
            alone.time_us,
            keys=None if alone.key is None else (alone.key,),
            attributes=(alone.attributes,) if alone.attributes else None,
            expires_us=alone.expires_us,
        )
    return encode_frame(
        Origin(producer, *records[0].schema),
        first_sequence,
        [record.payload for record in records],
        [record.time_us for record in records],
        keys=[record.key for record in records],
        attributes=[record.attributes for record in records],
        producers=producers,
        expires_us=records[0].expires_us,
    )
