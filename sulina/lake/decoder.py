"""Decodes an object: its footer from the last bytes, then frames from the bytes of a row group.

Pure functions of bytes; the caller does the I/O. They are CPU-bound, so run them in a thread. All
bytes are checked before they are decoded: a damaged object raises ``CorruptEntry`` and never yields
a frame that was not published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from sulina.errors import CorruptEntry
from sulina.lake.digest import Digest
from sulina.lake.footer_checksum import FOOTER_CHECKSUM_SIZE, footer_checksum
from sulina.lake.rebuild import rebuild_frames
from sulina.lake.schema import (
    OBJECT_SCHEMA,
    OFFSET,
    PRODUCER,
    PUBLISH_TIME,
    VALUE,
    VALUE_ERROR,
)
from sulina.lake.summary import ObjectMetadata, ObjectSummary, TypedSummary, from_metadata

TAIL: Final = 64 << 10
"""How many bytes to read first: they contain the footer of most objects."""

_MAGIC: Final = b"PAR1"
_ENDING: Final = 8
_MAX_FOOTER: Final = 128 << 20
_OFFSET_COLUMN: Final = OBJECT_SCHEMA.get_field_index(OFFSET)
_TIME_COLUMN: Final = OBJECT_SCHEMA.get_field_index(PUBLISH_TIME)


@dataclass(frozen=True, slots=True)
class NeedMore:
    """The footer is longer than the given bytes: read the last ``length`` bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group, which contains whole frames: its records and its position in the object."""

    number: int
    first_offset: int
    last_offset: int
    first_time_us: int
    last_time_us: int
    start: int
    end: int
    """Exclusive."""
    records: int


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """An object's metadata. Row groups are in order, without gaps between them unless the object
    is sparse."""

    summary: ObjectSummary
    control_frames: list[bytes]
    row_groups: tuple[RowGroup, ...]
    checksums: tuple[int, ...]
    parquet: pq.FileMetaData
    typed: TypedSummary | None = None
    """Of the columns ``value`` and ``value_error``, if there are."""

    def find(self, offset: int) -> int:
        """The number of the first row group that ends at or after ``offset``."""
        low, high = 0, len(self.row_groups)
        while low < high:
            middle = (low + high) // 2
            if self.row_groups[middle].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


def open_footer(tail: bytes, size: int) -> Footer | NeedMore:
    """Decode the footer of an object of ``size`` bytes from its last bytes, ``tail``.

    ``TAIL`` bytes are usually enough; otherwise ``NeedMore`` says how many are. Raises
    ``CorruptEntry`` if the object is damaged, ``Refused`` if its format is not supported.
    """
    if len(tail) < min(size, _ENDING + FOOTER_CHECKSUM_SIZE):
        return NeedMore(min(size, TAIL))
    length = int.from_bytes(tail[-_ENDING:-4], "little")
    whole = length + _ENDING + FOOTER_CHECKSUM_SIZE
    if tail[-4:] != _MAGIC or whole > size or length > _MAX_FOOTER:
        raise _damaged("it does not end like a Parquet file")
    if whole > len(tail):
        return NeedMore(whole)
    sealed = tail[len(tail) - whole + FOOTER_CHECKSUM_SIZE :]
    if tail[-whole:][:FOOTER_CHECKSUM_SIZE] != footer_checksum(sealed):
        raise _damaged("its footer does not match the checksum before it")
    try:
        parquet = pq.read_metadata(pa.BufferReader(sealed))
        columns = parquet.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are not UTF-8
        raise _damaged(f"its footer cannot be read ({error})") from None
    metadata = from_metadata(parquet.metadata, size)
    if not _are_ledgers(columns, typed=metadata.typed is not None):
        raise _damaged("its columns are not those of a ledger")
    _check_columns(parquet, size)
    groups = _row_groups(parquet, metadata)
    if (groups[-1].end if groups else len(_MAGIC)) + whole != size:
        raise _damaged("the sizes of its parts do not add up to its size")
    return Footer(
        summary=metadata.summary,
        control_frames=list(metadata.control_frames),
        row_groups=groups,
        checksums=tuple(part.crc for part in metadata.parts),
        parquet=parquet,
        typed=metadata.typed,
    )


def _are_ledgers(columns: pa.Schema, *, typed: bool) -> bool:
    """Whether these are the columns of an object, and after them the typed ones."""
    own = len(OBJECT_SCHEMA)
    if not pa.schema(list(columns)[:own]).equals(OBJECT_SCHEMA):
        return False
    more = [(field.name, field.type) for field in list(columns)[own:]]
    if not typed:
        return not more
    names = [name for name, _ in more]
    return names == [VALUE, VALUE_ERROR] and (
        pa.types.is_struct(more[0][1]) and more[1][1] == pa.string()
    )


def decode_row_group(footer: Footer, group: RowGroup, data: bytes) -> list[bytes]:
    """The frames of ``group``, whose bytes are ``data``, with offset and epoch assigned.

    They are identical to the ledger's frames, except that compressed ones are decompressed. Raises
    ``CorruptEntry`` if the bytes are damaged.
    """
    return rebuild_frames(_read(footer, group, data, OBJECT_SCHEMA.names))


def read_row_group(
    footer: Footer, group: RowGroup, data: bytes, columns: Sequence[str] | None = None
) -> pa.Table:
    """The records of ``group`` as an Arrow table (all columns if ``columns`` is None).

    ``producer`` is dictionary-encoded. Raises ``CorruptEntry`` as :func:`decode_row_group` does.
    """
    return _read(footer, group, data, columns)


class Verifier:
    """Verifies an object that was read back: every byte, every frame, and the digest.

    Row groups are added in order; memory is bounded by one row group.
    """

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self._digest = Digest()
        self._next = 0
        self._offset = footer.summary.first_offset

    def add(self, group: RowGroup, data: bytes) -> None:
        """Verify the next row group. Raises ``CorruptEntry``."""
        assert group.number == self._next, "row groups must be verified in order"
        rows = _read(self._footer, group, data, OBJECT_SCHEMA.names)
        if group.first_offset != self._offset and not (
            self._footer.summary.is_sparse and group.first_offset > self._offset
        ):
            raise _damaged(f"offset {self._offset} is missing", self._footer)
        rebuild_frames(rows)
        self._digest.add(rows)
        self._next += 1
        self._offset = group.last_offset + 1

    def finish(self) -> str:
        """The digest. Raises ``CorruptEntry`` if it is not the one in the summary."""
        assert self._next == len(self._footer.row_groups), "every row group must be verified"
        found = self._digest.text()
        if found != self._footer.summary.digest:
            raise _damaged("its records do not match the digest in its metadata", self._footer)
        return found


class _Window:
    """A file that contains only the bytes of one row group."""

    closed = False

    def __init__(self, data: bytes, start: int, size: int) -> None:
        self._data = memoryview(data)
        self._start = start
        self._size = size
        self._at = 0

    def read(self, length: int = -1) -> memoryview:
        begin = self._at - self._start
        if begin < 0 or length < 0 or begin + length > len(self._data):
            raise OSError("a read extends beyond the row group")
        self._at += length
        return self._data[begin : begin + length]  # not a copy: Arrow keeps a reference

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """Nothing to close."""


class _Nothing(_Window):
    """A file that ends where it is read. It raises nothing: Arrow would keep the error for ever,
    and with its traceback the reader."""

    asked = False
    """Whether something was read."""

    def read(self, length: int = -1) -> memoryview:
        self.asked = True
        return self._data


def _read(
    footer: Footer, group: RowGroup, data: bytes, columns: Sequence[str] | None = None
) -> pa.Table:
    if len(data) != group.end - group.start or crc32c(data) != footer.checksums[group.number]:
        raise _damaged(f"bytes {group.start} to {group.end} do not match their checksum", footer)
    window = pa.PythonFile(_Window(data, group.start, footer.summary.size), mode="r")
    try:
        with pq.ParquetFile(
            window, metadata=footer.parquet, read_dictionary=[PRODUCER], pre_buffer=False
        ) as file:
            rows = file.read_row_group(group.number, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(f"row group {group.number} cannot be read ({error})", footer) from None
    return rows.unify_dictionaries()


def _check_columns(parquet: pq.FileMetaData, size: int) -> None:
    """Raise ``CorruptEntry`` if Arrow can't open the metadata of every column.

    Asked for such a column directly, Arrow ends the process. Its reader looks at all of them before
    it reads the first byte, and raises; no byte is there to be read.
    """
    nothing = _Nothing(b"", 0, size)
    try:
        with pq.ParquetFile(
            pa.PythonFile(nothing, mode="r"), metadata=parquet, pre_buffer=True
        ) as file:
            next(file.iter_batches(1, use_threads=False), None)
    except (pa.ArrowException, OSError) as error:
        if not nothing.asked:
            raise _damaged(f"its columns cannot be opened ({error})") from None


def _row_groups(parquet: pq.FileMetaData, metadata: ObjectMetadata) -> tuple[RowGroup, ...]:
    if parquet.num_row_groups != len(metadata.parts):
        raise _damaged("its footer does not list all row groups")
    groups: list[RowGroup] = []
    start = 0
    for number, part in enumerate(metadata.parts):
        group = parquet.row_group(number)
        if group.num_columns != parquet.num_columns or any(
            group.column(column).physical_type != parquet.schema.column(column).physical_type
            for column in range(group.num_columns)
        ):
            # Arrow ends the process if it looks at the statistics of such a column.
            raise _damaged("a row group has columns of other types than its schema")
        offsets = group.column(_OFFSET_COLUMN).statistics
        times = group.column(_TIME_COLUMN).statistics
        if not all(found is not None and found.has_min_max for found in (offsets, times)):
            raise _damaged("its row groups lack statistics")
        groups.append(
            RowGroup(
                number=number,
                first_offset=offsets.min_raw,
                last_offset=offsets.max_raw,
                first_time_us=times.min_raw,
                last_time_us=times.max_raw,
                start=start,
                end=part.end,
                records=group.num_rows,
            )
        )
        start = part.end
    return tuple(groups)


def _damaged(cause: str, footer: Footer | None = None) -> CorruptEntry:
    whose = f" of ledger {footer.summary.ledger}" if footer else ""
    return CorruptEntry(
        f"the object{whose} is damaged or not a ledger: {cause}. Restore it from another copy"
    )
