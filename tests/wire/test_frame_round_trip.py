"""A frame gives back what was put into it, and its bytes are written down here."""

from __future__ import annotations

import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import CorruptFrame, Refused, TooLarge
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame, read_producer_name, read_slots
from sulina.wire.encode import (
    MAX_TIME_SPAN_US,
    Origin,
    encode_control_frame,
    encode_frame,
    key_slot,
    producer_id,
)
from sulina.wire.header import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAX_ATTRIBUTES,
    MAX_BODY,
    MAX_RECORDS,
    UNASSIGNED,
    assign,
    check_frame,
    parse_header,
)
from tests.wire.records import NOW, Records, assert_sound, records, sample

ORIGIN = Origin("p")


@given(records())
def test_any_records_come_out_of_a_frame_as_they_went_in(given_records: Records) -> None:
    frame = Frame(given_records.encode())
    given_records.assert_decoded_as(frame)
    assert_sound(frame)


@pytest.mark.parametrize("buffer", [bytes, bytearray, lambda data: memoryview(bytearray(data))])
def test_a_frame_opens_from_any_kind_of_buffer(buffer: type[bytes]) -> None:
    sample().assert_decoded_as(Frame(buffer(sample().encode())))


@pytest.mark.parametrize("compression", Compression)
def test_every_compression_gives_back_the_same_records(compression: Compression) -> None:
    payloads = [b"the same words over and over " * 10] * 50
    data = encode_frame(ORIGIN, 0, payloads, NOW, compression=compression)
    assert Frame(data).payloads == payloads
    assert check_frame(data).flags & COMPRESSION_MASK == compression
    if compression is not Compression.NONE:
        assert len(data) < sum(map(len, payloads)) / 5


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_columns_that_compression_makes_larger_are_stored_as_they_are(
    compression: Compression,
) -> None:
    data = encode_frame(ORIGIN, 0, [b"x"], NOW, compression=compression)
    assert data == encode_frame(ORIGIN, 0, [b"x"], NOW)


def test_columns_that_no_record_needs_take_no_space() -> None:
    bare = encode_frame(ORIGIN, 0, [b"a", b"b"], NOW)
    assert bare == encode_frame(
        ORIGIN, 0, [b"a", b"b"], [NOW, NOW], keys=[None, None], attributes=[None, {}]
    )


@given(records(), st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 63) - 1))
def test_offset_and_epoch_are_assigned_in_place_and_the_checksum_still_holds(
    given_records: Records, offset: int, epoch: int
) -> None:
    data = bytearray(given_records.encode())
    before = check_frame(data)
    assert (before.base_offset, before.epoch) == (UNASSIGNED, UNASSIGNED)
    assign(data, offset, epoch)
    after = check_frame(data)
    assert after == before.assigned(offset, epoch)
    assert after.next_offset == offset + given_records.count
    given_records.assert_decoded_as(Frame(data))


@given(st.binary(max_size=200))
def test_a_control_frame_keeps_its_content_and_has_no_records(content: bytes) -> None:
    data = bytearray(encode_control_frame(Origin("broker"), content, NOW))
    assign(data, 7, 3)
    frame = Frame(data)
    assert frame.header.is_control
    assert frame.count == 0 and frame.times == [] and frame.header.next_offset == 7
    assert frame.payloads == [content]
    assert_sound(frame)


@given(records())
def test_a_header_is_read_without_the_body(given_records: Records) -> None:
    data = given_records.encode()
    assert parse_header(data[:HEADER_SIZE]) == check_frame(data)
    assert parse_header(data).size == len(data)


@given(records())
def test_slots_and_the_producer_are_read_without_opening_the_columns(r: Records) -> None:
    data = r.encode()
    header = check_frame(data)
    assert read_producer_name(data, header) == r.origin.name
    slots = read_slots(data, header)
    if r.keys is None or all(key is None for key in r.keys):
        assert slots is None
    else:
        assert slots is not None
        producers = r.producers or [r.origin.name] * r.count
        assert list(slots) == [
            key_slot(producer.encode() if key is None else key)
            for key, producer in zip(r.keys, producers, strict=True)
        ]


def test_every_section_starts_on_a_boundary_of_eight_bytes() -> None:
    for count, name, size in product(range(1, 10), ["", "p", "12345678"], range(9)):
        data = encode_frame(Origin(name), 0, [b"x" * size] * count, NOW, keys=[b"k"] * count)
        header = check_frame(data)
        assert len(data) % 8 == header.columns_at % 8 == 0


def test_a_frame_holds_as_many_records_as_it_may_and_no_more() -> None:
    full = encode_frame(ORIGIN, 0, [b""] * MAX_RECORDS, NOW, keys=[b"k"] * MAX_RECORDS)
    assert Frame(full).count == MAX_RECORDS
    for count in (0, MAX_RECORDS + 1):
        with pytest.raises(TooLarge, match="records"):
            encode_frame(ORIGIN, 0, [b""] * count, NOW)


def test_the_largest_body_can_be_opened_and_a_larger_one_is_refused() -> None:
    # Noise: lz4 would make it larger, and push it over the limit of a body.
    noise = b"".join(producer_id(str(i)).to_bytes(8, "little") for i in range(1 << 16)) * 128
    largest = MAX_BODY - 2 * MAX_RECORDS - 8
    data = encode_frame(ORIGIN, 0, [noise[:largest]], NOW, compression=Compression.LZ4)
    assert Frame(data).payloads == [noise[:largest]]
    with pytest.raises(TooLarge, match="send smaller"):
        encode_frame(ORIGIN, 0, [noise[: largest + 1]], NOW)
    with pytest.raises(TooLarge, match="send smaller"):
        encode_frame(ORIGIN, 0, [noise[:largest]] * 2, NOW)


def test_too_many_attributes_are_refused() -> None:
    entry = {str(number): "" for number in range(MAX_ATTRIBUTES // 1024)}
    assert Frame(encode_frame(ORIGIN, 0, [b""] * 1024, NOW, attributes=[entry] * 1024)).count
    with pytest.raises(TooLarge, match="attributes"):
        encode_frame(ORIGIN, 0, [b""] * 1025, NOW, attributes=[entry] * 1025)


def test_a_name_that_is_too_long_is_refused() -> None:
    assert Frame(encode_frame(Origin("n" * 1024), 0, [b""], NOW)).producer_name == "n" * 1024
    with pytest.raises(Refused, match="name"):
        encode_frame(Origin("n" * 1025), 0, [b""], NOW)


def test_records_too_far_apart_in_time_are_refused() -> None:
    assert Frame(encode_frame(ORIGIN, 0, [b"", b""], [NOW, NOW + MAX_TIME_SPAN_US])).times
    with pytest.raises(Refused, match="apart"):
        encode_frame(ORIGIN, 0, [b"", b""], [NOW, NOW + MAX_TIME_SPAN_US + 1])


@pytest.mark.parametrize(
    ("method", "module"), [(Compression.LZ4, "lz4.block"), (Compression.ZSTD, "zstandard")]
)
def test_a_compression_that_is_not_installed_is_refused_with_the_remedy(
    method: Compression, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode_frame(ORIGIN, 0, [b"x" * 1000], NOW, compression=method)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Refused, match="pip install"):
        encode_frame(ORIGIN, 0, [b"x" * 1000], NOW, compression=method)
    with pytest.raises(Refused, match="pip install") as refused:
        Frame(data)
    assert not isinstance(refused.value, CorruptFrame)


def test_a_producers_id_follows_from_its_name() -> None:
    assert Origin("a").producer_id == producer_id("a") != producer_id("b")
    assert 0 <= producer_id("a") < 1 << 64


GOLDEN = """
534c4631 01 1c 0800      # magic, version, flags (keys, attributes, times), name length
c8000000 b8000000        # body length, raw columns length
03000000 03000000        # record count, schema version
0c00000000000000         # schema id
afe8cf489862e351         # producer id
e803000000000000         # first sequence
00605ba09d370600         # earliest time
23605ba09d370600         # latest time
b8000000 0374ac83        # stored columns length, CRC32C
2211000000000000         # base offset
3300000000000000         # epoch
73656e736f722d37         # producer name
0770000000000000         # key slots
00000000 14000000        # payload offsets
14000000 30000000
32312e3520646567         # payloads
726565732c207269
73696e6732322e30
2064656772656573
2c20726973696e67
2c20726973696e67
0500000000000000         # which records have a key
00000000 04000000        # key offsets
04000000 04000000
726f6f6600000000         # keys
00000000 02000000        # attributes of each record
02000000 03000000
00000000 04000000        # attribute name offsets
09000000 09000000
756e6974666c6f6f         # attribute names
7200000000000000
00000000 03000000        # attribute value offsets
04000000 04000000
c2b0433900000000         # attribute values
14000000 00000000        # microseconds after the earliest time
23000000 00000000
"""
GOLDEN_DELAYED = """
534c4631 01 40 0100      # magic, version, flags (delayed), name length
20000000 10000000        # body length, raw columns length
01000000 00000000        # record count, schema version
0000000000000000         # schema id
0d72d5bd89f3691f         # producer id
0500000000000000         # first sequence
00605ba09d370600         # earliest time
00605ba09d370600         # latest time
10000000 ff1cdc38        # stored columns length, CRC32C
ffffffffffffffff         # base offset, not assigned
ffffffffffffffff         # epoch, not assigned
0004ef769e370600         # delivery time
7000000000000000         # producer name
00000000 05000000        # payload offsets
6c61746572000000         # payload
"""
GOLDEN_CONTROL = """
534c4631 01 20 0600      # magic, version, flags (control), name length
18000000 10000000        # body length, raw columns length
00000000 00000000        # record count, schema version
0000000000000000         # schema id
83d8c251a54fe180         # producer id
0000000000000000         # first sequence
00605ba09d370600         # earliest time
00605ba09d370600         # latest time
10000000 5916b32d        # stored columns length, CRC32C
ffffffffffffffff         # base offset, not assigned
ffffffffffffffff         # epoch, not assigned
62726f6b65720000         # producer name
00000000 05000000        # payload offsets
7374617465000000         # payload
"""


def _bytes(text: str) -> bytes:
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


def test_a_frame_has_the_bytes_it_always_had() -> None:
    data = bytearray(sample().encode())
    assign(data, 0x1122, 0x33)
    assert bytes(data).hex(" ", 4) == _bytes(GOLDEN).hex(" ", 4)


def test_a_frame_of_old_is_read_as_it_always_was() -> None:
    frame = Frame(_bytes(GOLDEN))
    sample().assert_decoded_as(frame)
    assert (frame.header.base_offset, frame.header.epoch) == (0x1122, 0x33)


def test_a_delayed_frame_has_the_bytes_it_always_had() -> None:
    data = encode_frame(Origin("p"), 5, [b"later"], NOW, due_us=NOW + 3_600_000_000)
    assert data.hex(" ", 4) == _bytes(GOLDEN_DELAYED).hex(" ", 4)


def test_a_control_frame_has_the_bytes_it_always_had() -> None:
    data = encode_control_frame(Origin("broker"), b"state", NOW)
    assert data.hex(" ", 4) == _bytes(GOLDEN_CONTROL).hex(" ", 4)


def test_keys_fall_into_the_slots_they_always_fell_into() -> None:
    assert [key_slot(key) for key in (b"", b"roof", b"\x00", b"sensor-7")] == [
        0,
        7,
        81,
        112,
    ]
