"""Whatever the bytes are, opening them gives the records or one ``CorruptFrame``."""

from __future__ import annotations

import struct
import tracemalloc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import CorruptFrame
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame
from sulina.wire.header import (
    HEADER_SIZE,
    MAX_ATTRIBUTES,
    MAX_BODY,
    MAX_RECORDS,
    check_frame,
    parse_header,
    read_due,
    read_expiry,
)
from tests.wire.records import (
    FIELDS,
    MAX_SEQUENCE,
    NOW,
    Records,
    assert_sound,
    columns_of,
    delayed_sample,
    expiring_sample,
    lie,
    records,
    sample,
    sealed,
    with_columns,
)

BROKERS_PART = range(72, 88)
ORIGIN = Origin("p")
PLAIN = sample().encode()
DELAYED = delayed_sample().encode()
EXPIRING = expiring_sample().encode()


def packed(method: Compression) -> bytes:
    return encode_frame(ORIGIN, 0, [b"over and over " * 9] * 9, NOW, compression=method)


def int32(*values: int) -> bytes:
    data = array("i", values).tobytes()
    return data + bytes(-len(data) % 8)


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """What runs inside may not hold more than ``limit`` bytes beyond what was there before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < limit


def assert_sound_or_corrupt(data: bytes) -> None:
    try:
        frame = Frame(data)
    except CorruptFrame:
        return
    assert_sound(frame)


# ---- bytes that were altered ----


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_no_frame(data: bytes) -> None:
    with pytest.raises(CorruptFrame):
        Frame(data)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_behind_the_magic_are_no_frame(data: bytes) -> None:
    with pytest.raises(CorruptFrame):
        Frame(b"SLF1\x01" + data)


@pytest.mark.parametrize("data", [PLAIN, DELAYED, *map(packed, Compression)])
def test_a_frame_that_was_cut_anywhere_is_corrupt(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(CorruptFrame):
            Frame(data[:length])


def test_a_frame_with_bytes_behind_it_is_corrupt() -> None:
    for extra in (b"\0", bytes(8), PLAIN):
        with pytest.raises(CorruptFrame):
            Frame(PLAIN + extra)


@pytest.mark.parametrize(
    "data",
    [PLAIN, DELAYED, *map(packed, Compression), encode_control_frame(ORIGIN, b"state", NOW)],
)
def test_any_single_bit_that_flips_is_noticed(data: bytes) -> None:
    for index in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            if index in BROKERS_PART:
                assert Frame(flipped).payloads == Frame(data).payloads
            else:
                with pytest.raises(CorruptFrame):
                    Frame(flipped)


# ---- frames that lie, with a checksum that matches ----


@given(records(max_count=6), st.data())
def test_a_frame_altered_under_a_matching_checksum_is_corrupt_or_sound(
    given_records: Records, data: st.DataObject
) -> None:
    frame = bytearray(given_records.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(frame) - 1))
        frame[index] = data.draw(st.integers(0, 255))
    assert_sound_or_corrupt(sealed(frame))


@given(records(max_count=6), st.sampled_from(sorted({*FIELDS} - {"magic"})), st.data())
def test_any_value_in_a_header_field_is_corrupt_or_sound(
    given_records: Records, field: str, data: st.DataObject
) -> None:
    layout = FIELDS[field][1]
    low, high = {"B": (0, 255), "H": (0, 65535), "I": (0, (1 << 32) - 1)}.get(
        layout[-1], (0, (1 << 64) - 1) if layout[-1] == "Q" else (-(1 << 63), (1 << 63) - 1)
    )
    near = st.integers(0, 300) if low == 0 else st.integers(-300, 300)
    value = near.filter(lambda v: low <= v <= high) | st.integers(low, high)
    drawn = data.draw(value)
    assert_sound_or_corrupt(lie(given_records.encode(), **{field: drawn}))


@given(records(max_count=6), st.binary(max_size=200))
def test_arbitrary_columns_are_corrupt_or_sound(given_records: Records, columns: bytes) -> None:
    assert_sound_or_corrupt(with_columns(given_records.encode(), columns, raw_length=len(columns)))
    assert_sound_or_corrupt(with_columns(given_records.encode(), columns, raw_length=240))


HUGE = (1 << 32) - 1


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 0},
        {"count": 2},
        {"count": 4},
        {"count": 65_536},
        {"count": 65_537},
        {"count": HUGE},
        {"body_length": 0},
        {"body_length": HUGE},
        {"body_length": MAX_BODY},
        {"raw_length": 0},
        {"raw_length": HUGE},
        {"columns_length": 0},
        {"columns_length": HUGE},
        {"name_length": 0},
        {"name_length": 1025},
        {"name_length": 65_535},
        {"flags": 0x40},
        {"flags": 0x80},
        {"flags": 0x1C | 3},
        {"flags": 0x1C | 0x20},
        {"version": 0},
        {"version": 2},
        {"magic": b"SLF2"},
        {"first_sequence": -1},
        {"first_sequence": -(1 << 63)},
        {"first_sequence": MAX_SEQUENCE - 1},
        {"first_time": NOW + 36},
        {"last_time": NOW + 34},
        {"last_time": NOW - 1},
        {"first_time": -(1 << 63), "last_time": (1 << 63) - 1},
    ],
    ids=str,
)
def test_a_header_that_contradicts_the_body_or_itself_is_corrupt(fields: dict[str, int]) -> None:
    with memory_below(1 << 20), pytest.raises(CorruptFrame):
        Frame(lie(PLAIN, **fields))


def test_a_frame_of_too_many_records_is_corrupt_even_if_they_are_all_there() -> None:
    one = encode_frame(ORIGIN, 0, [b""], NOW)
    for count in (MAX_RECORDS, MAX_RECORDS + 1):
        data = with_columns(lie(one, count=count), int32(*([0] * (count + 1))))
        if count == MAX_RECORDS:
            assert Frame(data).count == count
        else:
            with pytest.raises(CorruptFrame):
                check_frame(data)


def test_bytes_behind_the_body_are_corrupt_even_if_the_checksum_covers_them() -> None:
    with pytest.raises(CorruptFrame):
        check_frame(sealed(PLAIN + bytes(8)))


def test_a_sequence_that_would_run_over_is_corrupt_before_a_broker_takes_it() -> None:
    with pytest.raises(CorruptFrame):
        check_frame(lie(PLAIN, first_sequence=MAX_SEQUENCE - 1))
    assert check_frame(lie(PLAIN, first_sequence=MAX_SEQUENCE - 2)).last_sequence == MAX_SEQUENCE


@pytest.mark.parametrize("due_us", [0, -1, -(1 << 63), 1 << 62, (1 << 63) - 1])
def test_a_delivery_time_that_cannot_be_is_corrupt_before_a_broker_takes_it(due_us: int) -> None:
    data = bytearray(DELAYED)
    struct.pack_into("<q", data, HEADER_SIZE, due_us)
    with pytest.raises(CorruptFrame, match="delivery time"):
        check_frame(sealed(data))


@pytest.mark.parametrize(
    "extension", [(1, 0), (1, -1), (1, 1 << 62), (0, NOW), (2, NOW), (3, NOW)], ids=str
)
def test_an_extension_that_cannot_be_is_corrupt_before_a_broker_takes_it(
    extension: tuple[int, int],
) -> None:
    data = bytearray(EXPIRING)
    struct.pack_into("<Qq", data, HEADER_SIZE + 8, *extension)
    with pytest.raises(CorruptFrame, match=r"expiry time|extension"):
        check_frame(sealed(data))


def test_a_frame_that_says_it_is_delayed_has_a_time_and_no_other_has() -> None:
    for data, flags in ((PLAIN, 0x1C | 0x40), (DELAYED, 0x1C)):
        with pytest.raises(CorruptFrame):
            parse_header(lie(data, flags=flags))


def test_a_frame_of_version_2_has_an_extension_and_no_other_has() -> None:
    for data, version in ((PLAIN, 2), (DELAYED, 2), (EXPIRING, 1), (PLAIN, 3), (PLAIN, 0)):
        with pytest.raises(CorruptFrame):
            parse_header(lie(data, version=version))


def test_a_delivery_time_is_not_read_from_a_header_alone() -> None:
    with pytest.raises(CorruptFrame, match="ends before"):
        read_due(DELAYED[:HEADER_SIZE], parse_header(DELAYED))
    with pytest.raises(CorruptFrame, match="ends before"):
        read_expiry(EXPIRING[: HEADER_SIZE + 8], parse_header(EXPIRING))


@pytest.mark.parametrize("flag", [0x04, 0x08, 0x10, 0x40, 0x80])
def test_a_control_frame_with_columns_of_records_is_corrupt(flag: int) -> None:
    control = encode_control_frame(ORIGIN, b"state", NOW)
    with pytest.raises(CorruptFrame):
        parse_header(lie(control, flags=0x20 | flag))


@pytest.mark.parametrize(
    "offsets",
    [(0, 5, 3, 9), (1, 2, 3, 9), (0, 3, 6, 17), (0, 3, 6, (1 << 31) - 1), (0, -1, 3, 9), (-9,) * 4],
    ids=str,
)
def test_offsets_out_of_order_or_out_of_bounds_are_corrupt(offsets: tuple[int, ...]) -> None:
    three = encode_frame(ORIGIN, 0, [b"abc", b"def", b"ghi"], NOW)
    good = int32(0, 3, 6, 9) + b"abcdefghi" + bytes(7)
    assert columns_of(three) == good
    with memory_below(1 << 20), pytest.raises(CorruptFrame):
        Frame(with_columns(three, int32(*offsets) + good[16:]))


def test_bytes_behind_the_last_column_are_corrupt() -> None:
    with pytest.raises(CorruptFrame, match="after"):
        Frame(with_columns(PLAIN, columns_of(PLAIN) + bytes(8)))


def test_text_that_is_not_utf_8_is_corrupt() -> None:
    name_at = PLAIN.index(b"sensor-7")
    for at in (name_at, PLAIN.index(b"unit"), PLAIN.index("\N{DEGREE SIGN}".encode())):
        data = bytearray(PLAIN)
        data[at] = 0xFF
        with pytest.raises(CorruptFrame, match="UTF-8"):
            Frame(sealed(data))


@pytest.mark.parametrize("deltas", [(1, 2, 35), (0, 0, 34), (0, 0, 36), (-1, 0, 35)], ids=str)
def test_times_that_are_not_those_of_the_header_are_corrupt(deltas: tuple[int, ...]) -> None:
    columns = columns_of(PLAIN)
    with pytest.raises(CorruptFrame, match="times"):
        Frame(with_columns(PLAIN, columns[:-16] + int32(*deltas)))


# ---- bombs ----


def attributes_frame(lists: bytes, rest: bytes) -> bytes:
    one = encode_frame(ORIGIN, 0, [b""], NOW, attributes=[{"a": "b"}])
    return with_columns(one, int32(0, 0) + lists + rest)


@pytest.mark.parametrize("total", [2, 1000, MAX_ATTRIBUTES, MAX_ATTRIBUTES + 1, (1 << 31) - 1])
def test_a_claim_of_many_attributes_allocates_nothing_for_them(total: int) -> None:
    data = attributes_frame(int32(0, total), int32(0, 1) + b"a" + bytes(7) + int32(0, 1))
    with memory_below(1 << 20), pytest.raises(CorruptFrame):
        Frame(data)


def test_more_attributes_than_a_frame_may_have_are_corrupt_even_if_they_are_there() -> None:
    total = MAX_ATTRIBUTES + 1
    nothing = bytes(4 * (total + 1) + -4 * (total + 1) % 8)
    raw = int32(0, 0) + int32(0, total) + nothing + nothing
    one = encode_frame(ORIGIN, 0, [b""], NOW, attributes=[{"a": "b"}])
    bomb = lz4.block.compress(raw, store_size=False)
    assert len(bomb) < 64 << 10
    data = with_columns(lie(one, flags=0x08 | Compression.LZ4), bomb, raw_length=len(raw))
    with memory_below(3 * len(raw)), pytest.raises(CorruptFrame, match="attributes"):
        Frame(data)


def test_nothing_large_is_kept_of_frames_that_were_opened() -> None:
    one = encode_frame(ORIGIN, 0, [b""], NOW, attributes=[{"a": "b"}])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for size in range(1, 4):
            total = MAX_RECORDS + 1
            column = int32(*range(0, total * size + 1, size)) + b"x" * (total * size)
            column += bytes(-len(column) % 8)
            raw = int32(0, 0) + int32(0, total) + column + column
            assert Frame(with_columns(one, raw)).count == 1
        del column, raw
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1 << 20


ZEROS = bytes(1 << 20)


@pytest.mark.parametrize("claimed", [0, 1, 1000, (1 << 20) - 1, (1 << 20) + 1, MAX_BODY])
def test_compressed_columns_of_another_length_than_claimed_are_corrupt(claimed: int) -> None:
    for method, bomb in (
        (Compression.LZ4, lz4.block.compress(ZEROS, store_size=False)),
        (Compression.ZSTD, zstandard.compress(ZEROS)),
    ):
        data = with_columns(packed(method), bomb, raw_length=claimed)
        with memory_below(claimed + 2 * len(ZEROS)), pytest.raises(CorruptFrame):
            Frame(data)


def test_a_bomb_is_not_decompressed_beyond_the_length_claimed() -> None:
    zeros = bytes(32 << 20)
    for method, bomb in (
        (Compression.LZ4, lz4.block.compress(zeros, store_size=False)),
        (Compression.ZSTD, zstandard.compress(zeros)),
    ):
        data = with_columns(packed(method), bomb, raw_length=1000)
        with memory_below(1 << 20), pytest.raises(CorruptFrame):
            Frame(data)


def test_a_claim_beyond_the_largest_body_is_corrupt_before_anything_is_decompressed() -> None:
    for method in (Compression.LZ4, Compression.ZSTD):
        data = lie(packed(method), raw_length=MAX_BODY + 1)
        with memory_below(1 << 20), pytest.raises(CorruptFrame):
            Frame(data)


def test_zstd_data_that_keeps_its_length_to_itself_is_corrupt() -> None:
    raw = columns_of(packed(Compression.NONE))
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(raw)
    two = zstandard.compress(raw[:500]) + zstandard.compress(raw[500:])
    for stored in (silent, two, zstandard.compress(raw) + b"more"):
        with pytest.raises(CorruptFrame):
            Frame(with_columns(packed(Compression.ZSTD), stored, raw_length=len(raw)))


@given(st.sampled_from([Compression.LZ4, Compression.ZSTD]), st.binary(max_size=100), st.data())
def test_bad_compressed_data_is_corrupt(
    method: Compression, noise: bytes, data: st.DataObject
) -> None:
    good = packed(method)
    stored = bytearray(columns_of(good))
    at = data.draw(st.integers(0, len(stored)))
    stored[at : at + len(noise)] = noise
    raw_length = parse_header(good).raw_length
    assert_sound_or_corrupt(with_columns(good, bytes(stored), raw_length=raw_length))
    with pytest.raises(CorruptFrame):
        Frame(with_columns(good, noise, raw_length=raw_length))


def test_a_header_alone_is_not_a_frame() -> None:
    with pytest.raises(CorruptFrame):
        check_frame(PLAIN[:HEADER_SIZE])
