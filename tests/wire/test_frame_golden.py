"""The bytes of a frame, written down: the format can't change unnoticed.

Frames live for years in journals and in S3. A change here is a new version of the format.
"""

from __future__ import annotations

from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame, key_slot
from sulina.wire.header import assign
from tests.wire.records import NOW, sample

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
