"""Converts between messages of Danube's protocol and records of frames.

Keys, attributes, publish times (milliseconds in the protocol) and schemas are kept in both
directions, whichever door the other side uses. Frames do not store the request id and the broker of
a message: a delivered message has its sequence number and the delivering broker there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.client_numbers import producer_number
from broker_containers.doors.danube.settings import MAX_MESSAGE_BYTES
from sulina.errors import TooLarge
from sulina.names import TopicName
from sulina.runtime.seam import Clock
from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.encode import MAX_TIME_SPAN_US, Origin, encode_frame

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

    def fits(self, first: DanubeRecord) -> bool:
        """Whether one frame can hold it and ``first``: same schema, times close together."""
        return (
            self.schema == first.schema and 2 * abs(self.time_us - first.time_us) < MAX_TIME_SPAN_US
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
    return DanubeRecord(
        message.payload,
        message.routing_key.encode() if message.HasField("routing_key") else None,
        dict(message.attributes) if message.attributes else None,
        sent_ms * 1000 if 0 < sent_ms < _LATEST_MS else clock.wall_us(),
        (message.schema_id, message.schema_version),
        size,
    )


def frame_of(producer: str, first_sequence: int, records: Sequence[DanubeRecord]) -> bytes:
    """A frame of records that all fit the first."""
    return encode_frame(
        Origin(producer, *records[0].schema),
        first_sequence,
        [record.payload for record in records],
        [record.time_us for record in records],
        keys=[record.key for record in records],
        attributes=[record.attributes for record in records],
    )


def messages_of(
    frame: Frame, chosen: int | None, topic: TopicName, broker_url: str, *, numbered: bool
) -> Iterator[tuple[int, bytes]]:
    """The records of a frame that ``chosen`` selects, in order; all if it is None.

    Each has its offset, and is encoded as a message of Danube's protocol. Without ``numbered`` the
    offset in it is 0, as in Danube: by the offset, its tools tell reliable messages.
    """
    header = frame.header
    name = str(topic)
    keys, attributes = frame.keys, frame.attributes
    payloads, times = frame.payloads, frame.times
    # One object for all of them: what they have in common is set once.
    message = pb.StreamMessage(
        msg_id=pb.MsgID(
            producer_id=producer_number(name, frame.producer_name),
            topic_name=name,
            broker_addr=broker_url,
        ),
        producer_name=frame.producer_name,
    )
    if header.schema_id:
        message.schema_id = header.schema_id
        message.schema_version = header.schema_version
    where, sequence, base = message.msg_id, header.first_sequence, header.base_offset
    encode = message.SerializeToString
    for index in range(frame.count) if chosen is None else selection.indices(chosen):
        offset = base + index
        message.request_id = sequence + index
        if numbered:
            where.topic_offset = offset
        message.payload = payloads[index]
        message.publish_time = max(times[index], 0) // 1000
        if keys is not None:
            key = keys[index]
            if key is None:
                message.ClearField("routing_key")
            else:
                # Keys of Sulina's producers may be binary; a gRPC string can't hold those.
                message.routing_key = key.decode(errors="replace")
        if attributes is not None:
            message.attributes.clear()
            message.attributes.update(attributes[index] or {})
        yield offset, encode()
