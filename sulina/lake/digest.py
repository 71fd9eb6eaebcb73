"""A digest of records: identical for frames, for an object and for any Arrow table of them.

Each column is one stream of bytes, independent of batches and row groups: integers in
little-endian; for values of variable length one stream of the lengths (int32, -1 for null) and one
of the bytes. Each stream has two checksums with different polynomials (CRC32C and CRC-32, both
cheap); the digest is BLAKE2b over all of them, in a fixed order. A changed, missing, added or moved
record changes it. It does not protect against deliberate forgery.

The column ``frame`` is excluded, so that readers without it can verify the rest. Null and empty
attributes are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from sulina.errors import Refused
from sulina.lake import schema
from sulina.lake.buffers import integers, octets, offsets, present
from sulina.wire.encode import producer_id

_PREFIX: Final = "v1-"
_SIZE: Final = 16
_STREAM: Final = struct.Struct("<QII")
_NO_TIME: Final = -(1 << 63)

_INTEGERS: Final = {
    schema.OFFSET: pa.int64(),
    schema.PUBLISH_TIME: schema.TIME_TYPE,
    schema.SEQUENCE: pa.int64(),
    schema.SCHEMA_ID: pa.int64(),
    schema.SCHEMA_VERSION: pa.int32(),
}


class _Stream:
    """Checksums of a stream of bytes, independent of how it is divided into pieces."""

    __slots__ = ("_crc32", "_crc32c", "_length")

    def __init__(self) -> None:
        self._length = self._crc32c = self._crc32 = 0

    def add(self, piece: NDArray[np.generic]) -> None:
        data = np.ascontiguousarray(piece).view(np.uint8).data
        self._length += len(data)
        self._crc32c = crc32c(data, self._crc32c)
        self._crc32 = crc32(data, self._crc32)

    def packed(self) -> bytes:
        return _STREAM.pack(self._length, self._crc32c, self._crc32)


class _Values:
    """The two streams of a column with values of variable length."""

    def __init__(self) -> None:
        self.lengths = _Stream()
        self.data = _Stream()

    def add(self, array: pa.Array, of_type: pa.DataType) -> None:
        if array.type != of_type:
            array = array.cast(of_type)
        absent = ~present(array) if array.null_count else None
        lengths = np.diff(offsets(array))
        if absent is not None:
            if lengths[absent].any():  # Arrow allows nulls with bytes
                array = array.fill_null(b"")
                lengths = np.diff(offsets(array))
            lengths[absent] = -1
        bounds = offsets(array)
        self.lengths.add(lengths)
        self.data.add(octets(array)[bounds[0] : bounds[-1]])


class Digest:
    """Computes the digest of records, added in order in batches of any size."""

    def __init__(self) -> None:
        self._integers = {name: _Stream() for name in _INTEGERS}
        self._due = _Stream()
        self._producers = _Stream()
        self._keys = _Values()
        self._payloads = _Values()
        self._attributes = _Stream()
        self._names = _Values()
        self._texts = _Values()

    def add(self, records: pa.RecordBatch | pa.Table) -> None:
        """Add the next records. Columns may have any Arrow type that can be cast to the schema's.

        Raises ``Refused`` if a column is missing, or has nulls but is required.
        """
        if isinstance(records, pa.Table):
            for batch in records.to_batches():
                self.add(batch)
            return
        if not records.num_rows:
            return
        columns = {name: _column(records, name) for name in schema.RECORD_SCHEMA.names}
        for name, of_type in _INTEGERS.items():
            self._integers[name].add(_integers(_required(columns[name], name), of_type))
        self._due.add(_integers(columns[schema.DELIVERY_TIME], schema.TIME_TYPE))
        self._producers.add(_producer_ids(_required(columns[schema.PRODUCER], schema.PRODUCER)))
        self._keys.add(columns[schema.KEY], pa.binary())
        self._payloads.add(columns[schema.PAYLOAD], pa.binary())
        self._add_attributes(columns[schema.ATTRIBUTES])

    def _add_attributes(self, array: pa.Array) -> None:
        if array.null_count == len(array):
            self._attributes.add(np.zeros(len(array), np.int32))
            return
        if array.type != schema.ATTRIBUTES_TYPE:
            array = array.cast(schema.ATTRIBUTES_TYPE)
        if array.null_count and np.diff(offsets(array))[~present(array)].any():
            array = array.take(pa.array(np.arange(len(array))))  # drops entries of nulls
        bounds = offsets(array)
        first, last = int(bounds[0]), int(bounds[-1])
        self._attributes.add(np.diff(bounds))
        self._names.add(array.keys.slice(first, last - first), pa.string())
        self._texts.add(array.items.slice(first, last - first), pa.string())

    def text(self) -> str:
        """The digest of the records added so far."""
        whole = blake2b(digest_size=_SIZE)
        for stream in self._streams():
            whole.update(stream.packed())
        return _PREFIX + whole.hexdigest()

    def _streams(self) -> Iterable[_Stream]:
        yield from self._integers.values()
        yield from (self._due, self._producers, self._attributes)
        for values in (self._keys, self._payloads, self._names, self._texts):
            yield from (values.lengths, values.data)


def digest_of(records: pa.RecordBatch | pa.Table) -> str:
    """The digest of all records of a table, which must be in the order of their offsets."""
    digest = Digest()
    digest.add(records)
    return digest.text()


def _column(records: pa.RecordBatch, name: str) -> pa.Array:
    if name not in records.schema.names:
        raise Refused(f"the digest needs all columns of the records: {name} is missing")
    return records.column(name)


def _required(array: pa.Array, name: str) -> pa.Array:
    if array.null_count:
        raise Refused(f"every record must have a {name}, but {array.null_count} are null")
    return array


def _integers(array: pa.Array, of_type: pa.DataType) -> NDArray[np.generic]:
    if array.type != of_type:
        array = array.cast(of_type)
    numbers = integers(array)
    return np.where(present(array), numbers, _NO_TIME) if array.null_count else numbers


def _producer_ids(array: pa.Array) -> NDArray[np.uint64]:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    ids = np.array([producer_id(name) for name in array.dictionary.to_pylist()], np.uint64)
    codes: NDArray[np.int64] = array.indices.to_numpy()
    return ids[codes] if len(codes) else ids[:0]
