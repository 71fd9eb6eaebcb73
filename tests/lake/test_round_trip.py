"""Whatever frames a ledger has, also unusual ones, its object gives them back."""

from __future__ import annotations

import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import CorruptFrame
from sulina.lake.arrow import frames_to_batch
from sulina.lake.decoder import Verifier
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.summary import ObjectHead
from sulina.wire.compression import Compression, compress
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame
from sulina.wire.header import (
    COMPRESSION_MASK,
    MAX_RECORDS,
    assign,
    check_frame,
    parse_header,
)
from tests.lake.ledgers import (
    LEDGER,
    TOPIC,
    Ledger,
    decode,
    encode,
    footer_of,
    groups_of,
    ledger_of,
    ledgers,
)
from tests.wire.records import (
    NOW,
    columns_of,
    expiring_sample,
    lie,
    sample,
    sealed,
    several_sample,
    with_columns,
)

ROW_GROUPS = st.sampled_from([1, 700, 2000, 1 << 20])


def assert_same(found: bytes, frame: bytes) -> None:
    """``found`` is ``frame``: byte for byte, or, if that is compressed, in all it holds."""
    if not check_frame(frame).flags & COMPRESSION_MASK:
        assert found == frame
        return
    got, want = Frame(found), Frame(frame)
    assert got.header.flags == want.header.flags & ~COMPRESSION_MASK
    for field in (
        *("base_offset", "epoch", "count", "producer_id", "first_sequence"),
        *("first_time", "last_time", "schema_id", "schema_version"),
    ):
        assert getattr(got.header, field) == getattr(want.header, field)
    assert got.producer_name == want.producer_name
    assert got.producers == want.producers
    assert got.payloads == want.payloads
    assert got.times == want.times
    assert got.keys == want.keys
    assert got.attributes == want.attributes
    assert got.due_us == want.due_us
    assert got.expires_us == want.expires_us


@settings(max_examples=60)
@given(ledgers(), ROW_GROUPS, st.integers(1, 5))
def test_any_frames_come_out_of_an_object_as_they_went_in(
    ledger: Ledger, row_group_bytes: int, at_once: int
) -> None:
    data, summary = encode(ledger, EncoderSettings(row_group_bytes), at_once)
    footer = footer_of(data)
    assert footer.summary == summary
    assert footer.control_frames == ledger.control_frames
    found = decode(data)
    for got, frame in zip(found, ledger.data_frames, strict=True):
        assert_same(got, frame)


@settings(max_examples=20)
@given(ledgers(), ROW_GROUPS)
def test_an_object_sums_up_its_frames(ledger: Ledger, row_group_bytes: int) -> None:
    data, summary = encode(ledger, EncoderSettings(row_group_bytes))
    headers = [parse_header(frame) for frame in ledger.data_frames]
    records = sum(header.count for header in headers)
    assert (summary.topic, summary.ledger) == (TOPIC, LEDGER)
    assert summary.first_offset == ledger.first_offset
    assert summary.last_offset == ledger.first_offset + records - 1
    assert summary.records == records
    assert summary.first_time_us == min((header.first_time for header in headers), default=0)
    assert summary.last_time_us == max((header.last_time for header in headers), default=0)
    assert summary.bytes == sum(map(len, ledger.frames))
    assert summary.size == len(data)


@settings(max_examples=20)
@given(ledgers(), ROW_GROUPS)
def test_row_groups_are_whole_frames_and_cover_the_object(
    ledger: Ledger, row_group_bytes: int
) -> None:
    data, summary = encode(ledger, EncoderSettings(row_group_bytes))
    footer = footer_of(data)
    end, next_offset = 0, ledger.first_offset
    verifier = Verifier(footer)
    for group, part, frames in groups_of(data):
        headers = [check_frame(frame) for frame in frames]
        assert (group.start, group.first_offset) == (end, next_offset)
        assert group.last_offset == headers[-1].next_offset - 1
        assert group.records == sum(header.count for header in headers)
        assert group.first_time_us == min(header.first_time for header in headers)
        assert group.last_time_us == max(header.last_time for header in headers)
        assert sum(map(len, frames)) <= row_group_bytes or len(frames) == 1
        for offset in (group.first_offset, group.last_offset):
            assert footer.find(offset) == group.number
        verifier.add(group, part)
        end, next_offset = group.end, group.last_offset + 1
    assert footer.find(next_offset) == len(footer.row_groups)
    assert verifier.finish() == summary.digest


def test_how_frames_are_handed_over_does_not_matter() -> None:
    ledger = ledger_of([sample(), b"control", expiring_sample(), sample(Compression.ZSTD)] * 3)
    objects = {encode(ledger, EncoderSettings(900), at_once)[0] for at_once in range(1, 13)}
    assert len(objects) == 1


def test_frames_may_be_any_kind_of_buffer() -> None:
    ledger = ledger_of([sample(), b"control", sample(Compression.LZ4)])
    data, _ = encode(ledger)
    for kind in (bytearray, memoryview):
        encoder = LedgerEncoder(ObjectHead(TOPIC, LEDGER, 0))
        chunks = encoder.add([kind(frame) for frame in ledger.frames])
        assert b"".join(chunks + encoder.finish()[0]) == data


def test_a_ledger_without_records_is_an_object_without_rows() -> None:
    data, summary = encode(ledger_of([b"one", b"two"], first_offset=9))
    footer = footer_of(data)
    assert (summary.first_offset, summary.last_offset, summary.records) == (9, 8, 0)
    assert footer.row_groups == ()
    assert [Frame(frame).payloads for frame in footer.control_frames] == [[b"one"], [b"two"]]
    assert Verifier(footer).finish() == summary.digest


def test_a_frame_larger_than_a_row_group_stands_alone() -> None:
    large = encode_frame(Origin("p"), 0, [b"x" * 5000, b"y" * 5000], NOW)
    frames = [bytearray(sample().encode()), bytearray(large), bytearray(sample().encode())]
    for frame, offset in zip(frames, (0, 3, 5), strict=True):
        assign(frame, offset, 1)
    data, _ = encode(Ledger(0, [bytes(frame) for frame in frames]), EncoderSettings(1000))
    assert [group.records for group in footer_of(data).row_groups] == [3, 2, 3]
    assert decode(data) == frames


def test_the_largest_count_and_no_bytes_at_all_come_back() -> None:
    frame = bytearray(
        encode_frame(Origin(""), 0, [b""] * MAX_RECORDS, NOW, keys=[b""] * MAX_RECORDS)
    )
    assign(frame, 0, 0)
    data, _ = encode(Ledger(0, [bytes(frame)]))
    assert decode(data) == [frame]


def test_many_frames_of_one_record_and_many_producers_come_back() -> None:
    frames: list[bytes] = []
    for offset in range(3000):
        name = f"client-{offset % 700}"
        keys = [b"key"] if offset % 3 else None
        frame = bytearray(encode_frame(Origin(name), offset, [name.encode()], offset, keys=keys))
        assign(frame, offset, 1)
        frames.append(bytes(frame))
    data, summary = encode(Ledger(0, frames), EncoderSettings(100_000))
    assert decode(data) == frames
    assert (summary.first_time_us, summary.last_time_us) == (0, 2999)


def test_compressed_frames_count_by_what_they_inflate_to() -> None:
    dense = encode_frame(Origin("p"), 0, [bytes(100_000)], NOW, compression=Compression.ZSTD)
    frames: list[bytes] = []
    for offset in range(4):
        frame = bytearray(dense)
        assign(frame, offset, 1)
        frames.append(bytes(frame))
    data, _ = encode(Ledger(0, frames), EncoderSettings(250_000))
    assert [group.records for group in footer_of(data).row_groups] == [2, 2]


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
    frames = [bytearray(sample().encode()), bytearray(frame), bytearray(expiring_sample().encode())]
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
    frame = bytearray(data.draw(st.sampled_from([sample(), expiring_sample()])).encode())
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


def test_records_of_a_frame_may_have_several_producers() -> None:
    several, one = several_sample().encode(), sample().encode()
    batch = frames_to_batch([one, several])
    producers = ["sensor-7"] * 3 + ["sensor-7", "sensor-8", "sensor-7"]
    assert batch.column("producer").to_pylist() == producers


def test_a_frame_whose_producers_are_no_text_is_kept_whole() -> None:
    ledger = ledger_of([several_sample()])
    (frame,) = ledger.frames
    damaged = sealed(frame.replace(b"sensor-8", b"sensor-\xff"))
    data, _ = encode(replace(ledger, frames=[damaged]))
    assert decode(data) == [damaged]
