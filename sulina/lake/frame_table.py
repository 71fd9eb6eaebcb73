"""Many frames in one buffer, with their headers as a table, all checked at once.

Stock Danube clients write one frame per record, so nothing that takes microseconds may run for each
frame. Only checksums are computed frame by frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from sulina.lake.runs import Bytes, Ints, padded, starts_of
from sulina.runtime.seam import Buffer
from sulina.wire import header as h

HEADER: Final = np.dtype(
    [
        ("magic", "S4"),
        ("version", "u1"),
        ("flags", "u1"),
        ("name_length", "<u2"),
        ("body_length", "<u4"),
        ("raw_length", "<u4"),
        ("count", "<u4"),
        ("schema_version", "<u4"),
        ("schema_id", "<u8"),
        ("producer_id", "<u8"),
        ("first_sequence", "<i8"),
        ("first_time", "<i8"),
        ("last_time", "<i8"),
        ("columns_length", "<u4"),
        ("crc", "<u4"),
        ("base_offset", "<i8"),
        ("epoch", "<i8"),
    ]
)
"""The header layout of ``sulina.wire.header``."""
assert HEADER.itemsize == h.HEADER_SIZE

_CRC_AT: Final = 68
_HEAD: Final = itemgetter(slice(_CRC_AT))
_BODY: Final = itemgetter(slice(h.HEADER_SIZE, None))
"""The parts of a frame that its checksum covers; the broker's fields are between them."""
_LARGE: Final = 2048
_WORD: Final = 8
_WORDS: Final = np.arange(h.HEADER_SIZE // _WORD)
_MAX_INT64: Final = (1 << 63) - 1


class IrregularFrames(Exception):
    """Some frames do not have the layout of ``encode_frame``; ``frames`` are their numbers."""

    def __init__(self, frames: Ints) -> None:
        super().__init__("frames with an unusual layout")
        self.frames = frames


def require(regular: NDArray[np.bool_]) -> None:
    """Raises ``IrregularFrames`` unless every frame is regular."""
    if not regular.all():
        raise IrregularFrames(np.flatnonzero(~regular))


@dataclass(frozen=True)
class FrameTable:
    """Consecutive frames in ``data``, each with an intact, valid header.

    The positions of their parts are computed on first use and cached.
    """

    data: Bytes
    starts: Ints
    headers: NDArray[np.void]
    flags: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str) -> Ints:
        """A header field of every frame, as int64; unsigned 64-bit ones keep their bits."""
        return self.headers[name].astype(np.int64)

    def has(self, flag: int) -> NDArray[np.bool_]:
        """Which frames have ``flag``."""
        marked: NDArray[np.bool_] = (self.flags & flag) != 0
        return marked

    @cached_property
    def extensions_at(self) -> Ints:
        return self.starts + h.HEADER_SIZE + _WORD * self.has(h.DELAYED)

    @cached_property
    def names_at(self) -> Ints:
        return self.extensions_at + h.EXTENSION_SIZE * self.has(h.EXTENDED)

    @cached_property
    def slots_at(self) -> Ints:
        return self.names_at + padded(self.field("name_length"))

    @cached_property
    def columns_at(self) -> Ints:
        return self.slots_at + padded(self.counts) * self.has(h.HAS_KEYS)

    @cached_property
    def dues(self) -> Ints:
        """The delivery time of each frame; 0 if it is not delayed."""
        places = (self.starts + h.HEADER_SIZE) // _WORD
        words = self.data.view("<i8").take(places, mode="clip")  # a header may be the last
        dues: Ints = np.where(self.has(h.DELAYED), words, 0)
        return dues


def _valid_extensions(table: FrameTable) -> NDArray[np.bool_]:
    """Which frames have a valid extension, or none."""
    places = table.extensions_at // _WORD
    words = table.data.view("<i8")
    flags, expiries = (words.take(places + after, mode="clip") for after in (0, 1))
    valid: NDArray[np.bool_] = (
        (flags == h.EXPIRES) & (expiries > 0) & (expiries <= h.MAX_TIME_US)
    ) | ~table.has(h.EXTENDED)
    return valid


def read_table(frames: Sequence[Buffer]) -> FrameTable:
    """The table of uncompressed frames with records.

    Raises ``IrregularFrames`` for control frames, compressed frames and those that ``check_frame``
    may reject.
    """
    lengths = lengths_of(frames)
    require((lengths >= h.HEADER_SIZE) & (lengths % _WORD == 0))
    data = np.frombuffer(b"".join(frames), np.uint8)
    starts = starts_of(lengths)[:-1]
    headers = _headers_in(data, starts)
    table = FrameTable(
        data,
        starts,
        headers,
        headers["flags"] | h.EXTENDED * (headers["version"] == h.EXTENDED_VERSION),
        headers["count"].astype(np.int64),
    )
    require(_plausible(table, lengths))
    require(checksums(frames) == headers["crc"])
    return table


def lengths_of(frames: Sequence[Buffer]) -> Ints:
    return np.fromiter(map(len, frames), np.int64, len(frames))


def headers_of(frames: Sequence[Buffer], lengths: Ints) -> NDArray[np.void]:
    """The headers of unchecked frames. Raises ``CorruptFrame`` if one has an impossible length."""
    if (lengths < h.HEADER_SIZE).any() or (lengths % _WORD).any():
        for frame in frames:
            h.check_frame(frame)
    if lengths.sum() < _LARGE * len(frames):
        # Copying small frames whole is faster than slicing each.
        return _headers_in(np.frombuffer(b"".join(frames), np.uint8), starts_of(lengths)[:-1])
    return np.frombuffer(b"".join([frame[: h.HEADER_SIZE] for frame in frames]), HEADER)


def _headers_in(data: Bytes, starts: Ints) -> NDArray[np.void]:
    words = data.view("<u8")[(starts // _WORD)[:, None] + _WORDS]
    headers: NDArray[np.void] = words.view(HEADER)[:, 0]
    return headers


def write_headers(out: Bytes, starts: Ints, headers: NDArray[np.void]) -> None:
    """Write each header at its start, which is on an 8-byte boundary."""
    words = headers.view("<u8").reshape(-1, len(_WORDS))
    out.view("<u8")[(starts // _WORD)[:, None] + _WORDS] = words


def checksums(frames: Sequence[Buffer]) -> NDArray[np.uint32]:
    """The CRC32C of each of these complete frames."""
    if sum(map(len, frames)) > _LARGE * len(frames):
        # Below that size, creating a view takes longer than copying.
        frames = [memoryview(frame) for frame in frames]
    # Runs only native code for each frame.
    found = map(crc32c, map(_BODY, frames), map(crc32c, map(_HEAD, frames)))
    return np.fromiter(found, np.uint32, len(frames))


def _plausible(table: FrameTable, lengths: Ints) -> NDArray[np.bool_]:
    """Which frames have a header that ``parse_header`` accepts and a valid delivery time
    and extension."""
    headers, flags, counts = table.headers, table.flags, table.counts
    body = table.field("body_length")
    raw = table.field("raw_length")
    sequence = table.field("first_sequence")
    first_time, last_time = table.field("first_time"), table.field("last_time")
    widest = np.where(table.has(h.HAS_TIMES), h.MAX_TIME_SPAN_US, 0)
    dues = table.dues
    plausible: NDArray[np.bool_] = (
        (headers["magic"] == h.MAGIC)
        & ((headers["version"] == h.VERSION) | table.has(h.EXTENDED))
        & ((flags & (h.COMPRESSION_MASK | h.CONTROL)) == 0)
        & (counts > 0)
        & (counts <= h.MAX_RECORDS)
        & (body <= h.MAX_BODY)
        & (body + h.HEADER_SIZE == lengths)
        & (table.field("name_length") <= np.where(table.has(h.HAS_PRODUCERS), 0, h.MAX_NAME))
        & (table.field("columns_length") == raw)
        & (table.columns_at + padded(raw) == table.starts + lengths)
        & (sequence >= 0)
        & (sequence <= _MAX_INT64 - counts + 1)
        & (last_time >= first_time)
        # The difference of two times may overflow, so it is checked for both bounds.
        & (last_time - first_time >= 0)
        & (last_time - first_time <= widest)
        & (~table.has(h.DELAYED) | ((dues > 0) & (dues <= h.MAX_TIME_US)))
        & _valid_extensions(table)
    )
    return plausible
