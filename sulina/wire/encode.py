"""Encodes records as a frame: columns in Arrow's layout, built without a loop over the records.

Columns, each padded to 8 bytes: payload (int32 offsets, data); if any record has a key: key
(validity bits, int32 offsets, data); if any has attributes: attributes (int32 list offsets, then
names and values, each as int32 offsets and data); if publish times differ: int32 deltas in
microseconds from the earliest; if records have several producers: their names (int32 offsets,
data).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, repeat

from crc32c import crc32c

from sulina.errors import Refused, TooLarge
from sulina.wire import header as h
from sulina.wire.compression import Compression, compress

_INT32 = "i"
_LARGE = 1024
_BIG_ENDIAN_HOST = sys.byteorder == "big"
MAX_TIME_SPAN_US = h.MAX_TIME_SPAN_US
SEVERAL_PRODUCERS = ""
"""The name of the origin of frames whose records have several producers. No producer has it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The producer of a frame. Its id is derived from its name, so it survives a restart."""

    name: str
    schema_id: int = 0
    schema_version: int = 0

    @property
    def producer_id(self) -> int:
        return producer_id(self.name)


@lru_cache(maxsize=4096)
def producer_id(name: str) -> int:
    """The 64-bit id of a producer's name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def key_slot(key: bytes) -> int:
    """The slot (0 to 255) by which KeyShared subscriptions assign keys to consumers."""
    return crc32c(key) & 0xFF


def encode_frame(
    origin: Origin,
    first_sequence: int,
    payloads: Sequence[bytes],
    times: Sequence[int] | int,
    *,
    keys: Sequence[bytes | None] | None = None,
    attributes: Sequence[Mapping[str, str] | None] | None = None,
    compression: Compression = Compression.NONE,
    due_us: int | None = None,
    expires_us: int | None = None,
    producers: Sequence[str] | None = None,
) -> bytes:
    """Encode ``payloads``, in order, as one frame.

    ``times`` are publish times in microseconds, one for all or one per record, at most 35 minutes
    apart. With ``due_us`` (microseconds since 1970) no record is delivered before that time, with
    ``expires_us`` no subscription delivers one from that time on. Columns that ``compression`` does
    not make smaller are stored uncompressed. ``producers`` are the names of each record's producer,
    if ``origin`` is ``SEVERAL_PRODUCERS``. Raises ``TooLarge``
    beyond the limits of a frame, and ``Refused`` for times too far apart, a producer name that is
    too long or a compression whose package is not installed.
    """
    count = len(payloads)
    if not 0 < count <= h.MAX_RECORDS:
        raise TooLarge(f"a frame must have 1 to {h.MAX_RECORDS} records, got {count}")
    assert first_sequence >= 0
    for column in (keys, attributes, producers, None if isinstance(times, int) else times):
        assert column is None or len(column) == count, "columns must have one value per record"
    flags = 0
    columns = _binary_column(payloads)
    slots = b""
    if keys is not None and any(key is not None for key in keys):
        flags |= h.HAS_KEYS
        slots = _pad(bytes(_slots(keys, producers or repeat(origin.name))))
        columns.append(_pad(_validity(keys)))
        columns += _binary_column([key or b"" for key in keys])
    if attributes is not None and any(attributes):
        flags |= h.HAS_ATTRIBUTES
        columns += _map_column([entry or {} for entry in attributes])
    if isinstance(times, int):
        first_time = last_time = times
    else:
        first_time, last_time = min(times), max(times)
        if first_time != last_time:
            flags |= h.HAS_TIMES
            if last_time - first_time > MAX_TIME_SPAN_US:
                raise Refused("records published more than 35 minutes apart cannot share a frame")
            columns.append(_pad(_int32(time - first_time for time in times)))
    if producers is not None:
        assert origin.name == SEVERAL_PRODUCERS
        flags |= h.HAS_PRODUCERS
        columns += _binary_column([name.encode() for name in producers])
    front = b""
    if due_us is not None:
        flags |= h.DELAYED
        front = h.pack_due(due_us)
    if expires_us is not None:
        flags |= h.EXTENDED
        front += h.pack_expiry(expires_us)
    return _assemble(
        origin,
        flags,
        count,
        first_sequence,
        (first_time, last_time),
        front,
        slots,
        columns,
        compression,
    )


def encode_control_frame(origin: Origin, content: bytes, time: int) -> bytes:
    """A frame without records that stores ``content`` for the topic's next owner."""
    columns = _binary_column([content])
    return _assemble(origin, h.CONTROL, 0, 0, (time, time), b"", b"", columns, Compression.NONE)


def _assemble(
    origin: Origin,
    flags: int,
    count: int,
    first_sequence: int,
    times: tuple[int, int],
    front: bytes,
    slots: bytes,
    columns: list[bytes],
    compression: Compression,
) -> bytes:
    name = origin.name.encode()
    if len(name) > h.MAX_NAME:
        raise Refused(f"the producer name has {len(name)} bytes: use at most {h.MAX_NAME}")
    raw_length = stored_length = sum(map(len, columns))
    if raw_length > h.MAX_BODY - 2 * h.MAX_RECORDS:
        raise TooLarge(f"{raw_length} bytes are too many for one frame: send smaller batches")
    if compression is not Compression.NONE:
        stored = compress(compression, b"".join(columns))
        if len(stored) < raw_length:
            flags |= compression
            stored_length = len(stored)
            columns = [_pad(stored)]
    body = [front, _pad(name), slots, *columns]
    head = h.pack_header(
        flags=flags,
        name_length=len(name),
        raw_length=raw_length,
        count=count,
        schema_version=origin.schema_version,
        schema_id=origin.schema_id,
        producer_id=origin.producer_id,
        first_sequence=first_sequence,
        first_time=times[0],
        last_time=times[1],
        columns_length=stored_length,
        body=body,
    )
    return b"".join([head, *body])


def _binary_column(values: Sequence[bytes]) -> list[bytes]:
    size = len(values[0]) if values else 0
    # Large values are copied only once, into the frame; for small ones joining first is faster.
    parts = values if size >= _LARGE else [b"".join(values)]
    length = sum(map(len, parts))
    if length > h.MAX_BODY:
        raise TooLarge(f"{length} bytes are too many for one frame: send smaller batches")
    count = len(values)
    if count <= h.MAX_RECORDS and length == size * count and len(set(map(len, values))) == 1:
        offsets = even_offsets(size, count)
    else:
        offsets = _pad(_int32(accumulate(map(len, values), initial=0)))
    return [offsets, *parts, bytes(-length % 8)]


def even_offsets(size: int, count: int) -> bytes:
    """The offsets of ``count`` values of equal size, the most common case."""
    return _pad(_rising(size, count.bit_length())[: 4 * (count + 1)])


@lru_cache(maxsize=32)
def _rising(size: int, bits: int) -> bytes:
    """The offsets of 2 ** ``bits`` values of equal size, cached for all counts up to that."""
    return _int32(range(0, (size << bits) + 1, size) if size else [0] * ((1 << bits) + 1))


def _map_column(entries: Sequence[Mapping[str, str]]) -> list[bytes]:
    total = sum(map(len, entries))
    if total > h.MAX_ATTRIBUTES:
        raise TooLarge(f"{total} attributes are too many for one frame: send smaller batches")
    lists = _pad(_int32(accumulate(map(len, entries), initial=0)))
    names = [name.encode() for entry in entries for name in entry]
    values = [value.encode() for entry in entries for value in entry.values()]
    return [lists, *_binary_column(names), *_binary_column(values)]


def _slots(keys: Iterable[bytes | None], producers: Iterable[str]) -> Iterator[int]:
    """The slot of each record: of its key, or of its producer without one."""
    for key, producer in zip(keys, producers, strict=False):
        yield key_slot(producer.encode() if key is None else key)


def _validity(values: Sequence[bytes | None]) -> bytes:
    bits = "".join("0" if value is None else "1" for value in reversed(values))
    return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")


def _int32(values: Iterable[int]) -> bytes:
    numbers = array(_INT32, values)
    if _BIG_ENDIAN_HOST:
        numbers.byteswap()
    return numbers.tobytes()


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8) if len(data) % 8 else data
