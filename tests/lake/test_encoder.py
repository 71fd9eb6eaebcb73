"""Keys of objects, what the encoder refuses, and damaged objects: one clear error."""

from __future__ import annotations

import gc
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sulina import lake
from sulina.errors import CorruptEntry, CorruptFrame, Refused, TooLarge
from sulina.lake import decoder
from sulina.lake.decoder import NeedMore, Verifier, decode_row_group, open_footer
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.footer_checksum import FOOTER_CHECKSUM_SIZE, footer_checksum
from sulina.lake.layout import (
    ObjectName,
    namespace_prefix,
    object_key,
    parse_key,
    topic_prefix,
)
from sulina.lake.summary import ObjectHead
from sulina.names import TopicName
from sulina.wire.compression import Compression
from sulina.wire.header import HEADER_SIZE, assign
from tests.lake.ledgers import LEDGER, TOPIC, Ledger, decode, encode, footer_of, ledger_of
from tests.wire.records import expiring_sample, sample

LEDGER_OF_FOUR = ledger_of([sample(), sample(Compression.LZ4), b"control", sample()])
BROKERS_PART = range(72, 88)


@given(st.integers(0, 3), st.data(), st.integers(1, 4))
def test_a_flipped_bit_in_any_frame_is_found(which: int, data: st.DataObject, at_once: int) -> None:
    frames = list(LEDGER_OF_FOUR.frames)
    damaged = bytearray(frames[which])
    places = [place for place in range(len(damaged)) if place not in BROKERS_PART]
    damaged[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    frames[which] = bytes(damaged)
    with pytest.raises(CorruptFrame):
        encode(Ledger(0, frames), at_once=at_once)


@pytest.mark.parametrize("length", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 8])
def test_a_cut_frame_is_found(length: int) -> None:
    with pytest.raises(CorruptFrame):
        encode(Ledger(0, [sample().encode()[:length]]))


def test_two_frames_handed_over_as_one_are_no_frame() -> None:
    with pytest.raises(CorruptFrame):
        encode(Ledger(0, [b"".join(LEDGER_OF_FOUR.frames[:2])]))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("at_once", [1, 4])
def test_a_gap_or_a_repeat_in_the_offsets_is_refused(which: int, at_once: int) -> None:
    for step in (-1, 1):
        frames = [bytearray(frame) for frame in LEDGER_OF_FOUR.frames]
        assign(frames[which], [0, 3, 6, 6][which] + step, 5)
        with pytest.raises(Refused, match="should follow") as refused:
            encode(Ledger(0, [bytes(frame) for frame in frames]), at_once=at_once)
        assert not isinstance(refused.value, CorruptFrame)


def test_a_ledger_that_begins_elsewhere_is_refused() -> None:
    with pytest.raises(Refused, match="continues at offset 0, but 7 should follow"):
        encode(Ledger(7, LEDGER_OF_FOUR.frames))


def test_control_frames_beyond_the_bound_are_refused() -> None:
    settings = EncoderSettings(max_control_bytes=1000)
    encode(ledger_of([bytes(200)] * 2), settings)
    with pytest.raises(TooLarge, match="control frames"):
        encode(ledger_of([bytes(200)] * 5), settings)


@pytest.mark.parametrize("size", [0, -1, (1 << 30) + 1])
def test_a_row_group_has_a_sensible_size(size: int) -> None:
    with pytest.raises(Refused, match="row group"):
        EncoderSettings(size)


def test_what_is_finished_leaves_the_encoder_at_once() -> None:
    ledger = ledger_of([sample()] * 100)
    size = len(ledger.frames[0])
    encoder = LedgerEncoder(ObjectHead(TOPIC, LEDGER, 0), EncoderSettings(10 * size))
    given_out = [sum(map(len, encoder.add([frame]))) for frame in ledger.frames]
    last, summary = encoder.finish()
    assert sum(1 for length in given_out if length) == 9
    assert sum(given_out) + sum(map(len, last)) == summary.size


ORDERS = TopicName("default", "orders")
NUMBERS = st.integers(0, (1 << 63) - 1)
NAMES = st.from_regex(r"[\w-]{1,20}", fullmatch=True)


def test_a_key_is_a_path_of_a_hive_table() -> None:
    assert object_key(ORDERS.partition(3), 1200, 45) == (
        "ledgers/namespace=default/topic=orders/partition=3/"
        "00000000000000001200-00000000000000000045.parquet"
    )


def test_a_topic_without_partitions_stands_at_partition_zero() -> None:
    assert object_key(ORDERS, 0, 1) == object_key(ORDERS.partition(0), 0, 1)
    assert parse_key(object_key(ORDERS, 0, 1)) == ObjectName("default", "orders", 0, 0, 1)


@given(NAMES, NAMES, st.none() | st.integers(0, 4095), NUMBERS, NUMBERS)
def test_a_key_tells_what_it_was_made_of(
    namespace: str, local: str, partition: int | None, first_offset: int, ledger: int
) -> None:
    topic = TopicName(namespace, local)
    if partition is not None:
        topic = topic.partition(partition)
    key = object_key(topic, first_offset, ledger)
    name = parse_key(key)
    base, number = topic.partition_of or (topic, 0)
    assert (name.namespace, name.topic, name.partition) == (base.namespace, base.local, number)
    assert (name.first_offset, name.ledger) == (first_offset, ledger)
    assert name.key == key
    assert key.startswith(topic_prefix(topic))
    assert key.startswith(topic_prefix(base))
    assert key.startswith(namespace_prefix(namespace))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2))
def test_keys_of_a_topic_sort_by_offset(places: list[tuple[int, int]]) -> None:
    keys = [object_key(ORDERS, offset, ledger) for offset, ledger in places]
    assert sorted(keys) == [object_key(ORDERS, *place) for place in sorted(places)]


def test_the_prefix_of_a_topic_is_not_that_of_one_whose_name_goes_on() -> None:
    longer = object_key(TopicName("default", "orders-late"), 0, 1)
    assert not longer.startswith(topic_prefix(ORDERS))
    eleventh = object_key(ORDERS.partition(11), 0, 1)
    assert not eleventh.startswith(topic_prefix(ORDERS.partition(1)))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ledgers/",
        object_key(ORDERS, 0, 1) + ".tmp",
        "x/" + object_key(ORDERS, 0, 1),
        object_key(ORDERS, 0, 1).replace("partition=0", "partition=00"),
        object_key(ORDERS, 0, 1).replace("topic=orders", "topic=or/ders"),
        object_key(ORDERS, 0, 1).replace("-0", "-", 1),
        object_key(ORDERS, 0, 1) + "\n",
    ],
)
def test_other_keys_are_refused_with_what_is_expected(key: str) -> None:
    with pytest.raises(Refused, match="20 digits"):
        parse_key(key)


def test_nothing_is_said_where_all_is_installed() -> None:
    lake.require_lake()


def test_missing_packages_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"numpy and pyarrow: pip install 'sulina\[lake\]'"):
        lake.require_lake()


OBJECT, SUMMARY = encode(
    ledger_of([sample(), expiring_sample(), sample(Compression.LZ4), b"control"] * 2),
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
    with pytest.raises(Refused, match=r"format 4.*newer version"):
        decode(sealed(parquet_with({"sulina.format": "4"})))


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


def test_opening_footers_keeps_nothing_in_memory() -> None:
    data, _ = encode(ledger_of([sample()]), EncoderSettings())
    for _ in range(20):
        open_footer(data, len(data))
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, decoder._Window)]
