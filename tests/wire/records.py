"""Records as the tests make them up, the frames that they become, and frames that lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from crc32c import crc32c
from hypothesis import strategies as st

from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import MAX_TIME_SPAN_US, SEVERAL_PRODUCERS, Origin, encode_frame
from sulina.wire.header import HEADER_SIZE, MAX_TIME_US

NOW = 1_750_000_000_000_000
MAX_SEQUENCE = (1 << 63) - 1


@dataclass(frozen=True)
class Records:
    """What goes into a frame."""

    origin: Origin
    first_sequence: int
    payloads: list[bytes]
    times: list[int] | int
    keys: list[bytes | None] | None
    attributes: list[dict[str, str] | None] | None
    compression: Compression
    due_us: int | None = None
    expires_us: int | None = None
    producers: list[str] | None = None

    def encode(self) -> bytes:
        return encode_frame(
            self.origin,
            self.first_sequence,
            self.payloads,
            self.times,
            keys=self.keys,
            attributes=self.attributes,
            compression=self.compression,
            due_us=self.due_us,
            expires_us=self.expires_us,
            producers=self.producers,
        )

    def assert_decoded_as(self, frame: Frame) -> None:
        """``frame`` has all of this, and nothing else."""
        header = frame.header
        times = [self.times] * self.count if isinstance(self.times, int) else self.times
        assert frame.count == header.count == self.count
        assert frame.producer_name == self.origin.name
        assert header.producer_id == self.origin.producer_id
        assert header.schema_id == self.origin.schema_id
        assert header.schema_version == self.origin.schema_version
        assert header.first_sequence == self.first_sequence
        assert header.last_sequence == self.first_sequence + self.count - 1
        assert (header.first_time, header.last_time) == (min(times), max(times))
        assert not header.is_control
        assert header.is_delayed is (self.due_us is not None)
        assert frame.due_us == self.due_us
        assert frame.expires_us == self.expires_us
        assert frame.payloads == self.payloads
        assert frame.times == times
        assert frame.producers == (self.producers or [self.origin.name] * self.count)
        if self.keys is None or all(key is None for key in self.keys):
            assert frame.keys is None
        else:
            assert frame.keys == self.keys
        if self.attributes is None or not any(self.attributes):
            assert frame.attributes is None
        else:
            assert frame.attributes == [entry or {} for entry in self.attributes]

    @property
    def count(self) -> int:
        return len(self.payloads)


@st.composite
def records(draw: st.DrawFn, max_count: int = 40) -> Records:
    """Any records that may share a frame."""
    count = draw(st.integers(1, max_count))
    payload = draw(st.sampled_from([st.binary(max_size=40), st.just(b""), st.just(b"x" * 100)]))

    def column(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
        return st.lists(values, min_size=count, max_size=count)

    first_time = draw(st.integers(-(1 << 62), 1 << 62))
    span = draw(st.sampled_from([0, 1, 5_000, MAX_TIME_SPAN_US]))
    times = st.integers(first_time, first_time + span)
    attributes = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4)
    name = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    producers = draw(st.none() | column(name))
    return Records(
        origin=Origin(
            draw(name) if producers is None else SEVERAL_PRODUCERS,
            schema_id=draw(st.integers(0, (1 << 64) - 1)),
            schema_version=draw(st.integers(0, (1 << 32) - 1)),
        ),
        first_sequence=draw(st.integers(0, MAX_SEQUENCE - count)),
        payloads=draw(column(payload)),  # type: ignore[arg-type]
        times=draw(times | column(times)),  # type: ignore[arg-type]
        keys=draw(st.none() | column(st.none() | st.binary(max_size=9))),  # type: ignore[arg-type]
        attributes=draw(st.none() | column(st.none() | attributes)),  # type: ignore[arg-type]
        compression=draw(st.sampled_from(Compression)),
        due_us=draw(st.none() | st.integers(1, MAX_TIME_US)),
        expires_us=draw(st.none() | st.integers(1, MAX_TIME_US)),
        producers=producers,  # type: ignore[arg-type]
    )


def several_sample() -> Records:
    """The same as :func:`sample`, from several producers."""
    origin = replace(sample().origin, name=SEVERAL_PRODUCERS)
    return replace(sample(), origin=origin, producers=["sensor-7", "sensor-8", "sensor-7"])


def delayed_sample() -> Records:
    """The same as :func:`sample`, to be delivered an hour later."""
    return replace(sample(), due_us=NOW + 3_600_000_000)


def expiring_sample() -> Records:
    """The same as :func:`delayed_sample`, of no use two hours later."""
    return replace(delayed_sample(), expires_us=NOW + 7_200_000_000)


def sample(compression: Compression = Compression.NONE) -> Records:
    """Three records that use everything a frame can hold."""
    return Records(
        origin=Origin("sensor-7", schema_id=12, schema_version=3),
        first_sequence=1000,
        payloads=[b"21.5 degrees, rising", b"", b"22.0 degrees, rising, rising"],
        times=[NOW + 20, NOW, NOW + 35],
        keys=[b"roof", None, b""],
        attributes=[{"unit": "\N{DEGREE SIGN}C", "floor": "9"}, None, {"": ""}],
        compression=compression,
    )


def assert_sound(frame: Frame) -> None:
    """The columns of an opened frame fit each other, whoever made it."""
    count = frame.count
    assert len(frame.payloads) == max(count, 1)
    assert len(frame.times) == count
    assert len(frame.producers) == count
    assert frame.keys is None or len(frame.keys) == count
    assert frame.attributes is None or len(frame.attributes) == count
    assert all(type(payload) is bytes for payload in frame.payloads)
    assert not count or min(frame.times) == frame.header.first_time
    assert not count or max(frame.times) == frame.header.last_time
    assert frame.header.first_sequence >= 0
    assert frame.header.last_sequence <= MAX_SEQUENCE
    assert frame.due_us is None or 0 < frame.due_us <= MAX_TIME_US
    assert frame.expires_us is None or 0 < frame.expires_us <= MAX_TIME_US


_CRC_AT = 68
FIELDS = {
    "magic": (0, "<4s"),
    "version": (4, "<B"),
    "flags": (5, "<B"),
    "name_length": (6, "<H"),
    "body_length": (8, "<I"),
    "raw_length": (12, "<I"),
    "count": (16, "<I"),
    "schema_version": (20, "<I"),
    "schema_id": (24, "<Q"),
    "producer_id": (32, "<Q"),
    "first_sequence": (40, "<q"),
    "first_time": (48, "<q"),
    "last_time": (56, "<q"),
    "columns_length": (64, "<I"),
}
"""The producer's part of the header: where each field is, and how it is written."""


def sealed(frame: bytes | bytearray) -> bytes:
    """The same bytes with a checksum that matches them."""
    result = bytearray(frame)
    if len(result) >= HEADER_SIZE:
        crc = crc32c(bytes(result[HEADER_SIZE:]), crc32c(bytes(result[:_CRC_AT])))
        struct.pack_into("<I", result, _CRC_AT, crc)
    return bytes(result)


def lie(frame: bytes, **fields: int | bytes) -> bytes:
    """``frame`` with these header fields instead, and a checksum that matches."""
    result = bytearray(frame)
    for name, value in fields.items():
        at, layout = FIELDS[name]
        struct.pack_into(layout, result, at, value)
    return sealed(result)


def with_columns(frame: bytes, columns: bytes, raw_length: int | None = None) -> bytes:
    """``frame`` with other columns, and all lengths to match."""
    (name_length,) = struct.unpack_from("<H", frame, 6)
    (flags,) = struct.unpack_from("<B", frame, 5)
    (count,) = struct.unpack_from("<I", frame, 16)
    before = _padded(name_length) + (_padded(count) if flags & 4 else 0) + (flags >> 3 & 8)
    before += 16 * (frame[4] - 1)
    body = frame[HEADER_SIZE : HEADER_SIZE + before] + columns + bytes(-len(columns) % 8)
    return lie(
        frame[:HEADER_SIZE] + body,
        body_length=len(body),
        columns_length=len(columns),
        raw_length=len(columns) if raw_length is None else raw_length,
    )


def columns_of(frame: bytes) -> bytes:
    """The columns as they are stored in ``frame``."""
    (length,) = struct.unpack_from("<I", frame, 64)
    (body,) = struct.unpack_from("<I", frame, 8)
    start = HEADER_SIZE + body - _padded(length)
    return frame[start : start + length]


def _padded(length: int) -> int:
    return (length + 7) & ~7
