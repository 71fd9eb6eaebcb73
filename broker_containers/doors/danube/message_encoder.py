"""Encodes records of frames as messages of Danube's protocol.

Frames do not store the request id and the broker of a message: a delivered message has its sequence
number and the delivering broker there. Messages are put together from encoded fields, of which most
are the same for all messages of a producer: that takes a fraction of the time of an object each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.client_numbers import producer_number
from sulina.names import TopicName
from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.header import HAS_PRODUCERS

_NUMBER, _BYTES = 0, 2  # wire types
_MOST_PRODUCERS: Final = 256
"""Producers whose common fields an encoder remembers."""


def _tag(field: int, wire_type: int) -> bytes:
    return bytes([field << 3 | wire_type])


_REQUEST_ID: Final = _tag(pb.StreamMessage.REQUEST_ID_FIELD_NUMBER, _NUMBER)
_MSG_ID: Final = _tag(pb.StreamMessage.MSG_ID_FIELD_NUMBER, _BYTES)
_PAYLOAD: Final = _tag(pb.StreamMessage.PAYLOAD_FIELD_NUMBER, _BYTES)
_PUBLISH_TIME: Final = _tag(pb.StreamMessage.PUBLISH_TIME_FIELD_NUMBER, _NUMBER)
_OFFSET: Final = _tag(pb.MsgID.TOPIC_OFFSET_FIELD_NUMBER, _NUMBER)


def _varint(number: int) -> bytes:
    """A number as protocol buffers encode it: 7 bits per byte, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    # Of numbers that follow each other, all but the lowest bits are the same.
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80)) + _high_bits(number >> 14)


@lru_cache(maxsize=4096)
def _high_bits(number: int) -> bytes:
    return _varint(number)


class MessageEncoder:
    """Encodes the records of a topic.

    Without ``numbered`` the offset in messages is 0, as in Danube: by the offset, its tools tell
    reliable messages.
    """

    def __init__(self, topic: TopicName, broker_url: str, *, numbered: bool) -> None:
        self._topic = str(topic)
        self._broker_url = broker_url
        self._numbered = numbered
        self._common: dict[tuple[str, int, int], tuple[bytes, bytes]] = {}
        """Producer and schema -> fields of ``MsgID`` and of the message."""

    def messages_of(self, frame: Frame, chosen: int | None) -> Iterator[tuple[int, bytes]]:
        """The records of a frame that ``chosen`` selects, in order, each with its offset.

        All of them if ``chosen`` is None.
        """
        header = frame.header
        payloads, times = frame.payloads, frame.times
        more = frame.keys is not None or frame.attributes is not None
        schema = header.schema_id, header.schema_version
        several = frame.producers if header.flags & HAS_PRODUCERS else None
        of_place, of_message = self._fields(frame.producer_name, *schema)
        for index in range(header.count) if chosen is None else selection.indices(chosen):
            offset, payload = header.base_offset + index, payloads[index]
            if several is not None:
                of_place, of_message = self._fields(several[index], *schema)
            place = of_place + _OFFSET + _varint(offset) if self._numbered else of_place
            yield (
                offset,
                b"".join(
                    (
                        _REQUEST_ID,
                        _varint(header.first_sequence + index),
                        _MSG_ID,
                        _varint(len(place)),
                        place,
                        _PAYLOAD,
                        _varint(len(payload)),
                        payload,
                        _PUBLISH_TIME,
                        _varint(max(times[index], 0) // 1000),
                        of_message,
                        _key_and_attributes(frame, index) if more else b"",
                    )
                ),
            )

    def _fields(self, producer: str, schema_id: int, schema_version: int) -> tuple[bytes, bytes]:
        """What the messages of a producer have in common."""
        found = self._common.get((producer, schema_id, schema_version))
        if found is None:
            place = pb.MsgID(
                producer_id=producer_number(self._topic, producer),
                topic_name=self._topic,
                broker_addr=self._broker_url,
            )
            message = pb.StreamMessage(producer_name=producer)
            if schema_id:
                message.schema_id = schema_id
                message.schema_version = schema_version
            if len(self._common) >= _MOST_PRODUCERS:
                self._common.clear()
            found = place.SerializeToString(), message.SerializeToString()
            self._common[producer, schema_id, schema_version] = found
        return found


def _key_and_attributes(frame: Frame, index: int) -> bytes:
    message = pb.StreamMessage()
    key = None if frame.keys is None else frame.keys[index]
    if key is not None:
        # Keys of Sulina's producers may be binary; a gRPC string can't hold those.
        message.routing_key = key.decode(errors="replace")
    if frame.attributes is not None:
        message.attributes.update(frame.attributes[index])
    return message.SerializeToString()
