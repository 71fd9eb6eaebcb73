"""Whatever frames a ledger has, its object gives them back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.lake.decoder import Verifier
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.summary import ObjectHead
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import COMPRESSION_MASK, MAX_RECORDS, assign, check_frame, parse_header
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
from tests.wire.records import NOW, delayed_sample, sample

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
    assert got.payloads == want.payloads
    assert got.times == want.times
    assert got.keys == want.keys
    assert got.attributes == want.attributes
    assert got.due_us == want.due_us


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
    ledger = ledger_of([sample(), b"control", delayed_sample(), sample(Compression.ZSTD)] * 3)
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
