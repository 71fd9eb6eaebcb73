"""Frames of an unusual make: intact, so they are kept, and come back as they were."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import CorruptFrame
from sulina.lake.arrow import frames_to_batch
from sulina.lake.decoder import Verifier
from sulina.wire.compression import Compression, compress
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame
from sulina.wire.header import assign, check_frame, parse_header
from tests.lake.ledgers import Ledger, decode, encode, footer_of, ledger_of
from tests.wire.lies import columns_of, lie, sealed, with_columns
from tests.wire.records import NOW, delayed_sample, sample

PLAIN = encode_frame(Origin("p"), 0, [b"abc", b"d"], NOW)
KEYED = encode_frame(Origin("p"), 0, [b"abc", b"d"], NOW, keys=[b"k", None])
TAGGED = encode_frame(Origin("p"), 0, [b"a"], NOW, attributes=[{"name": "value"}])


def changed(frame: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new) and old in frame
    return sealed(frame.replace(old, new))


def ending(frame: bytes, last: bytes) -> bytes:
    return sealed(frame[: -len(last)] + last)


READABLE = {
    "padding behind a payload": ending(PLAIN, b"\x01"),
    "padding behind the name": changed(PLAIN, b"p" + bytes(7), b"p" + bytes(6) + b"!"),
    "bytes of a null key": changed(
        KEYED,
        struct.pack("<iii", 0, 1, 1) + bytes(4) + b"k" + bytes(7),
        struct.pack("<iii", 0, 1, 2) + bytes(4) + b"kx" + bytes(6),
    ),
    "a bit of no record": changed(
        KEYED,
        b"\x01" + bytes(7) + struct.pack("<ii", 0, 1),
        b"\x09" + bytes(7) + struct.pack("<ii", 0, 1),
    ),
    "columns without the last padding": with_columns(PLAIN, columns_of(PLAIN)[:-4]),
}
UNREADABLE = {
    "no columns": with_columns(PLAIN, b""),
    "offsets that fall": with_columns(PLAIN, struct.pack("<iii", 0, 5, 2) + bytes(12)),
    "offsets that wrap": with_columns(PLAIN, struct.pack("<iii", 0, (1 << 31) - 1, -5) + bytes(12)),
    "offsets from beyond": with_columns(PLAIN, struct.pack("<iii", 0, 3, 400) + bytes(12)),
    "offsets not from zero": with_columns(PLAIN, struct.pack("<iii", 1, 3, 4) + bytes(12)),
    "bytes behind the columns": with_columns(PLAIN, columns_of(PLAIN) + bytes(8)),
    "a name that is no text": changed(PLAIN, b"p" + bytes(7), b"\xff" + bytes(7)),
    "a long name that is no text": changed(
        encode_frame(Origin("n" * 1024), 0, [b"a"], NOW), b"n" * 1024, b"\xff" * 1024
    ),
    "an attribute that is no text": changed(TAGGED, b"value", b"valu\xff"),
    "compressed columns that are not": with_columns(
        lie(PLAIN, flags=Compression.LZ4), b"nonsense", raw_length=1000
    ),
    "compressed columns of nonsense": with_columns(
        lie(PLAIN, flags=Compression.LZ4), compress(Compression.LZ4, bytes(range(64))), 64
    ),
    "times that are not the header's": changed(
        encode_frame(Origin("p"), 0, [b"a", b"b"], [NOW, NOW + 77]),
        struct.pack("<ii", 0, 77),
        struct.pack("<ii", 0, 78),
    ),
}


def among_others(frame: bytes) -> Ledger:
    """A ledger with ``frame`` between two others."""
    frames = [bytearray(sample().encode()), bytearray(frame), bytearray(delayed_sample().encode())]
    offset = 0
    for each in frames:
        assign(each, offset, 4)
        offset = parse_header(each).next_offset
    return Ledger(0, [bytes(each) for each in frames])


def assert_kept(ledger: Ledger) -> pa.Table:
    data, summary = encode(ledger)
    assert decode(data) == ledger.frames
    footer = footer_of(data)
    verifier = Verifier(footer)
    for group in footer.row_groups:
        verifier.add(group, data[group.start : group.end])
    assert verifier.finish() == summary.digest
    return pq.read_table(pa.BufferReader(data))


@pytest.mark.parametrize("frame", READABLE.values(), ids=READABLE.keys())
def test_an_unusual_layout_comes_back_byte_for_byte(frame: bytes) -> None:
    opened = Frame(frame)
    table = assert_kept(among_others(frame))
    assert table.column("payload").to_pylist()[3:5] == opened.payloads
    assert table.column("key").to_pylist()[3:5] == (opened.keys or [None, None])


@pytest.mark.parametrize("frame", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_frame_that_nobody_can_open_comes_back_and_has_no_payload(frame: bytes) -> None:
    header = check_frame(frame)
    with pytest.raises(CorruptFrame):
        Frame(frame)
    table = assert_kept(among_others(frame))
    assert table.column("payload").to_pylist()[3 : 3 + header.count] == [None] * header.count
    assert table.column("payload").null_count == header.count
    assert table.column("offset").to_pylist() == list(range(6 + header.count))


@settings(max_examples=40)
@given(st.data())
def test_whatever_a_producer_seals_is_kept(data: st.DataObject) -> None:
    frame = bytearray(data.draw(st.sampled_from([sample(), delayed_sample()])).encode())
    columns_at = parse_header(frame).columns_at
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(columns_at, len(frame) - 1))] = data.draw(st.integers(0, 255))
    assert_kept(among_others(sealed(frame)))


def test_flags_that_no_record_needs_are_kept() -> None:
    nobody = with_columns(
        lie(KEYED, flags=parse_header(KEYED).flags),
        columns_of(PLAIN) + bytes(8) + bytes(16),
    )
    assert Frame(nobody).keys == [None, None]
    assert_kept(among_others(nobody))


def test_a_name_twice_in_one_records_attributes_is_kept() -> None:
    frame = encode_frame(Origin("p"), 0, [b"a"], NOW, attributes=[{"same": "1", "also": "2"}])
    assert_kept(among_others(changed(frame, b"also", b"same")))


def test_a_control_frame_among_records_is_refused() -> None:
    control = encode_control_frame(Origin("broker"), b"", NOW)
    with pytest.raises(CorruptFrame, match="no records"):
        frames_to_batch([sample().encode(), control])


def test_no_frames_are_no_records() -> None:
    assert frames_to_batch([]).num_rows == 0
    assert ledger_of([]).frames == []
