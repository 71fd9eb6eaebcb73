"""Which objects of a listing count, and what plain readers do while old and new ones exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import Refused
from sulina.lake.decoder import NeedMore, Verifier, decode_row_group, open_footer
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.generations import newest_objects
from sulina.lake.layout import ObjectName, is_notice, notice_key, object_key, parse_key
from sulina.lake.summary import ObjectHead
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign, parse_header

TOPIC = TopicName("default", "orders")


def name(first: int, ledger: int, last: int = -1, generation: int = 0) -> ObjectName:
    return ObjectName("default", "orders", 0, first, ledger, generation, last)


def newest(*names: ObjectName) -> list[ObjectName]:
    return newest_objects(names, lambda each: each)


def test_the_key_of_an_object_that_replaces_others_has_its_range_and_generation() -> None:
    key = object_key(TOPIC, 12, 45, 7, 99)
    assert key.endswith(
        "/00000000000000000012-00000000000000000045-00000000000000000099-0000000007.parquet"
    )
    assert parse_key(key) == name(12, 45, 99, 7) and parse_key(key).key == key


@pytest.mark.parametrize("change", [("-0000000007", "-0000000000"), ("-0000000007", "-7")])
def test_keys_with_other_generations_are_refused(change: tuple[str, str]) -> None:
    with pytest.raises(Refused):
        parse_key(object_key(TOPIC, 12, 45, 7, 99).replace(*change))


def test_a_notice_is_the_first_file_of_its_folder_and_no_object() -> None:
    notice = notice_key(TOPIC, 45, 7)
    assert is_notice(notice) and not is_notice(object_key(TOPIC, 0, 0))
    assert notice < object_key(TOPIC, 0, 0) and notice.endswith(".parquet")
    with pytest.raises(Refused):
        parse_key(notice)


def test_an_object_hides_those_that_it_replaced_and_later_ones_hide_it() -> None:
    old = name(0, 1), name(10, 2), name(20, 3), name(30, 4)
    assert newest(*old, name(0, 2, 19, 1)) == [name(0, 2, 19, 1), name(20, 3), name(30, 4)]
    twice = name(0, 2, 19, 1), name(0, 3, 29, 2)
    assert newest(*old, *twice) == [name(0, 3, 29, 2), name(30, 4)]


@given(st.data())
def test_whatever_is_replaced_given_up_or_deleted_each_offset_counts_once(data: Any) -> None:
    """A model of owners: objects of ten records, runs of which are replaced or given up."""
    named = [name(n * 10, n + 1) for n in range(data.draw(st.integers(1, 8)))]
    end = len(named) * 10
    listed = set(named)

    def last(each: ObjectName) -> int:
        return each.last_offset if each.generation else each.first_offset + 9

    for generation in range(1, data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(named) - 1))
        stop = data.draw(st.integers(start + 1, len(named)))
        run = named[start:stop]
        new = name(run[0].first_offset, run[-1].ledger, last(run[-1]), generation)
        listed.add(new)
        if data.draw(st.booleans()):
            named[start:stop] = [new]
            listed -= set(data.draw(st.sets(st.sampled_from(run))))  # deleted after their time
        elif data.draw(st.booleans()):
            listed.discard(new)  # given up, and deleted
        at = 0
        for each in newest(*listed):
            assert each.first_offset == at
            at = last(each) + 1
        assert at == end


def frame(base: int, count: int) -> bytes:
    made = bytearray(encode_frame(Origin("p"), base, [b"%d" % (base + n) for n in range(count)], 5))
    assign(memoryview(made), base, 1)
    return bytes(made)


def test_an_object_may_lack_offsets_of_its_range() -> None:
    encoder = LedgerEncoder(ObjectHead(TOPIC, 9, 0, 3, 99), EncoderSettings(150), sparse=True)
    frames = [frame(4, 2), frame(20, 1), frame(21, 3), frame(90, 1)]
    chunks = encoder.add(frames)
    rest, summary = encoder.finish()
    assert (summary.first_offset, summary.last_offset, summary.records) == (0, 99, 7)
    assert summary.is_sparse and summary.generation == 3
    data = b"".join([*chunks, *rest])
    footer = open_footer(data, len(data))
    assert not isinstance(footer, NeedMore) and len(footer.row_groups) > 1
    verifier, found = Verifier(footer), list[bytes]()
    for group in footer.row_groups:
        verifier.add(group, data[group.start : group.end])
        found += decode_row_group(footer, group, data[group.start : group.end])
    verifier.finish()
    assert footer.summary == summary
    assert [parse_header(each).base_offset for each in found] == [4, 20, 21, 90]
    assert footer.parquet.metadata[b"sulina.format"] == b"3"


def test_a_sparse_object_refuses_offsets_that_go_back() -> None:
    encoder = LedgerEncoder(ObjectHead(TOPIC, 9, 0, 3, 99), sparse=True)
    with pytest.raises(Refused, match="continues at offset 5"):
        encoder.add([frame(4, 2), frame(5, 1)])


def test_plain_readers_fail_while_a_notice_says_so(tmp_path: Path) -> None:
    encoder = LedgerEncoder(ObjectHead(TOPIC, 1, 0))
    chunks = encoder.add([frame(0, 5)])
    place = tmp_path / object_key(TOPIC, 0, 1)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"".join([*chunks, *encoder.finish()[0]]))
    query = f"select count(*) from read_parquet('{tmp_path}/ledgers/**/*.parquet')"
    assert duckdb.connect().execute(query).fetchall() == [(5,)]
    notice = tmp_path / notice_key(TOPIC, 1, 1)
    notice.write_bytes(b"not Parquet")
    with pytest.raises(duckdb.Error, match="being-replaced-read-with-iceberg"):
        duckdb.connect().execute(query).fetchall()
    with pytest.raises((OSError, pa.ArrowException)):
        ds.dataset(tmp_path / "ledgers", partitioning="hive").to_table()
    notice.unlink()
    assert duckdb.connect().execute(query).fetchall() == [(5,)]
    assert np.all(ds.dataset(tmp_path / "ledgers", partitioning="hive").count_rows() == 5)
