"""Damaged objects: one clear error, and never a frame that was not published."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sulina.errors import CorruptEntry, Refused
from sulina.lake.decoder import NeedMore, Verifier, decode_row_group, open_footer
from sulina.lake.encoder import EncoderSettings
from sulina.lake.footer_checksum import FOOTER_CHECKSUM_SIZE, footer_checksum
from sulina.wire.compression import Compression
from tests.lake.ledgers import decode, encode, footer_of, ledger_of
from tests.wire.records import delayed_sample, sample

OBJECT, SUMMARY = encode(
    ledger_of([sample(), delayed_sample(), sample(Compression.LZ4), b"control"] * 2),
    EncoderSettings(800),
)
FRAMES = decode(OBJECT)
FOOTER = footer_of(OBJECT)


@given(st.integers(0, len(OBJECT) - 1), st.integers(0, 7))
@example(0, 0)
@example(len(OBJECT) - 1, 7)
def test_any_flipped_bit_is_found(place: int, bit: int) -> None:
    damaged = bytearray(OBJECT)
    damaged[place] ^= 1 << bit
    with pytest.raises(CorruptEntry, match=r"damaged.*Restore"):
        decode(bytes(damaged))


@given(st.integers(0, len(OBJECT) - 1))
@example(0)
@example(3)
@example(len(OBJECT) - 1)
def test_a_truncated_object_is_found(length: int) -> None:
    with pytest.raises(CorruptEntry):
        decode(OBJECT[:length])


@given(st.integers(0, len(OBJECT)), st.binary(min_size=1, max_size=20))
def test_bytes_too_many_are_found(place: int, more: bytes) -> None:
    with pytest.raises(CorruptEntry):
        decode(OBJECT[:place] + more + OBJECT[place:])


@given(st.binary(max_size=200))
def test_bytes_that_are_no_object_are_told_so(data: bytes) -> None:
    with pytest.raises(CorruptEntry, match="damaged or not a ledger"):
        decode(data)


def test_the_bytes_of_another_row_group_are_found() -> None:
    first, second = FOOTER.row_groups[:2]
    assert len(FOOTER.row_groups) > 2
    with pytest.raises(CorruptEntry, match=f"ledger {SUMMARY.ledger}.*checksum"):
        decode_row_group(FOOTER, first, OBJECT[second.start : second.end])
    with pytest.raises(CorruptEntry, match="checksum"):
        decode_row_group(FOOTER, first, b"")


def test_a_footer_says_how_much_of_the_end_it_needs() -> None:
    for length in range(len(OBJECT) + 1):
        found = open_footer(OBJECT[len(OBJECT) - length :], len(OBJECT))
        if isinstance(found, NeedMore):
            assert length < found.length <= len(OBJECT)
        else:
            assert found.summary == SUMMARY


def sealed(parquet: bytes) -> bytes:
    """A Parquet file with a seal before its footer, as if we had written it."""
    length = int.from_bytes(parquet[-8:-4], "little") + 8
    footer = parquet[-length:]
    return parquet[:-length] + footer_checksum(footer) + footer


def parquet_with(metadata: dict[str, str]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"x": [1]}).replace_schema_metadata(metadata)
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def test_a_parquet_file_of_someone_else_is_refused() -> None:
    with pytest.raises(CorruptEntry, match="not a ledger"):
        decode(parquet_with({}))
    with pytest.raises(Refused, match="not a Sulina ledger"):
        decode(sealed(parquet_with({})))


def test_a_newer_format_is_refused_with_the_remedy() -> None:
    with pytest.raises(Refused, match=r"format 2.*newer version"):
        decode(sealed(parquet_with({"sulina.format": "2"})))


def test_metadata_that_lacks_something_is_found() -> None:
    with pytest.raises(CorruptEntry, match="metadata is damaged"):
        decode(sealed(parquet_with({"sulina.format": "1"})))


def test_a_digest_that_does_not_fit_the_records_is_found() -> None:
    other = OBJECT.replace(SUMMARY.digest.encode(), SUMMARY.digest[::-1].encode())
    (length,) = struct.unpack("<I", other[-8:-4])
    start = len(other) - length - 8 - FOOTER_CHECKSUM_SIZE
    resealed = other[:start] + sealed(other[start + FOOTER_CHECKSUM_SIZE :])
    footer = footer_of(resealed)
    verifier = Verifier(footer)
    for group in footer.row_groups:
        verifier.add(group, resealed[group.start : group.end])
    with pytest.raises(CorruptEntry, match="digest"):
        verifier.finish()
