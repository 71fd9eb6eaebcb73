"""Many frames as one buffer, with their headers as a table: checked all at once.

A ledger of stock Danube clients has a frame for each record, so nothing that costs microseconds
may be done to each frame. The one thing done to each is its checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from sulina.lake.ragged import Bytes, Ints, padded, starts_of
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
"""A frame's header as ``sulina.wire.header`` lays it out."""
assert HEADER.itemsize == h.HEADER_SIZE

CRC_AT: Final = 68
_WORD: Final = 8
_WORDS: Final = np.arange(h.HEADER_SIZE // _WORD)
_MAX_INT64: Final = (1 << 63) - 1
_MAX_FLAGS: Final = (1 << 7) - 1


class IrregularFrames(Exception):
    """Some frames are not laid out as ``encode_frame`` does it; ``frames`` are their numbers."""

    def __init__(self, frames: Ints) -> None:
        super().__init__("frames of an unusual layout")
        self.frames = frames


def require(regular: NDArray[np.bool_]) -> None:
    """Raises ``IrregularFrames`` unless every frame is regular."""
    if not regular.all():
        raise IrregularFrames(np.flatnonzero(~regular))


@dataclass(frozen=True, slots=True)
class FrameTable:
    """Frames one after the other in ``data``, each with an intact, plausible header."""

    data: Bytes
    starts: Ints
    headers: NDArray[np.void]
    flags: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str) -> Ints:
        """A header field of every frame; unsigned 64-bit ones keep their bits."""
        return self.headers[name].astype(np.int64)

    def has(self, flag: int) -> NDArray[np.bool_]:
        """Which frames have ``flag``."""
        marked: NDArray[np.bool_] = (self.flags & flag) != 0
        return marked

    @property
    def names_at(self) -> Ints:
        return self.starts + h.HEADER_SIZE + _WORD * self.has(h.DELAYED)

    @property
    def slots_at(self) -> Ints:
        return self.names_at + padded(self.field("name_length"))

    @property
    def columns_at(self) -> Ints:
        return self.slots_at + padded(self.counts) * self.has(h.HAS_KEYS)

    @property
    def dues(self) -> Ints:
        """When each frame may be delivered; 0 for those that are not delayed."""
        places = (self.starts + h.HEADER_SIZE) // _WORD
        words = self.data.view("<i8").take(places, mode="clip")  # nothing may follow a header
        dues: Ints = np.where(self.has(h.DELAYED), words, 0)
        return dues


def read_table(frames: Sequence[Buffer]) -> FrameTable:
    """The table of uncompressed frames with records.

    Raises ``IrregularFrames`` with those that ``check_frame`` may refuse, that are compressed, or
    that are control frames.
    """
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    require((lengths >= h.HEADER_SIZE) & (lengths % _WORD == 0))
    data = np.frombuffer(b"".join(frames), np.uint8)
    starts = starts_of(lengths)[:-1]
    words = data.view("<u8")[(starts // _WORD)[:, None] + _WORDS]
    headers = words.view(HEADER)[:, 0]
    table = FrameTable(
        data,
        starts,
        headers,
        headers["flags"].astype(np.int64),
        headers["count"].astype(np.int64),
    )
    require(_plausible(table, lengths))
    require(_intact(table, lengths))
    return table


def write_headers(out: Bytes, starts: Ints, headers: NDArray[np.void]) -> None:
    """Write each header to its place, which is on an 8-byte boundary."""
    words = headers.view("<u8").reshape(-1, len(_WORDS))
    out.view("<u8")[(starts // _WORD)[:, None] + _WORDS] = words


def checksum(frame: Buffer) -> int:
    """The CRC32C that belongs into the header of a whole frame."""
    view = memoryview(frame)
    return crc32c(view[h.HEADER_SIZE :], crc32c(view[:CRC_AT]))


def _plausible(table: FrameTable, lengths: Ints) -> NDArray[np.bool_]:
    """Which frames have a header that ``parse_header`` takes and a delivery time that can be."""
    headers, flags, counts = table.headers, table.flags, table.counts
    body = table.field("body_length")
    raw = table.field("raw_length")
    sequence = table.field("first_sequence")
    first_time, last_time = table.field("first_time"), table.field("last_time")
    widest = np.where(table.has(h.HAS_TIMES), h.MAX_TIME_SPAN_US, 0)
    dues = table.dues
    plausible: NDArray[np.bool_] = (
        (headers["magic"] == h.MAGIC)
        & (headers["version"] == h.VERSION)
        & (flags <= _MAX_FLAGS)
        & ((flags & (h.COMPRESSION_MASK | h.CONTROL)) == 0)
        & (counts > 0)
        & (counts <= h.MAX_RECORDS)
        & (body <= h.MAX_BODY)
        & (body + h.HEADER_SIZE == lengths)
        & (table.field("name_length") <= h.MAX_NAME)
        & (table.field("columns_length") == raw)
        & (table.columns_at + padded(raw) == table.starts + lengths)
        & (sequence >= 0)
        & (sequence <= _MAX_INT64 - counts + 1)
        & (last_time >= first_time)
        # The difference of two times may wrap around: the comparison above tells.
        & (last_time - first_time >= 0)
        & (last_time - first_time <= widest)
        & (~table.has(h.DELAYED) | ((dues > 0) & (dues <= h.MAX_TIME_US)))
    )
    return plausible


def _intact(table: FrameTable, lengths: Ints) -> NDArray[np.bool_]:
    view = table.data.data
    ends = (table.starts + lengths).tolist()
    found = [
        crc32c(view[start + h.HEADER_SIZE : end], crc32c(view[start : start + CRC_AT]))
        for start, end in zip(table.starts.tolist(), ends, strict=True)
    ]
    intact: NDArray[np.bool_] = np.array(found, np.uint32) == table.headers["crc"]
    return intact
