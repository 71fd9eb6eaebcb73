"""The digest: the same by every way, another for any other records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import Refused
from sulina.lake import schema
from sulina.lake.arrow import frames_to_batch
from sulina.lake.decoder import read_row_group
from sulina.lake.digest import Digest, digest_of
from sulina.lake.encoder import EncoderSettings
from sulina.wire.compression import Compression
from tests.lake.ledgers import Ledger, encode, footer_of, ledger_of, ledgers
from tests.wire.records import expiring_sample, sample

LEDGER = ledger_of([sample(), expiring_sample(), sample(Compression.LZ4)])


def table_of(data: bytes) -> pa.Table:
    footer = footer_of(data)
    groups = [read_row_group(footer, g, data[g.start : g.end]) for g in footer.row_groups]
    return pa.concat_tables(groups) if groups else schema.OBJECT_SCHEMA.empty_table()


def records() -> pa.Table:
    return pa.Table.from_batches([frames_to_batch(LEDGER.frames)]).select(
        schema.RECORD_SCHEMA.names
    )


def put(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


@settings(max_examples=30)
@given(ledgers(), st.sampled_from([1, 700, 1 << 20]), st.integers(1, 5))
def test_frames_object_and_table_have_the_same_digest(
    ledger: Ledger, row_group_bytes: int, step: int
) -> None:
    data, summary = encode(ledger, EncoderSettings(row_group_bytes))
    table = table_of(data)
    assert digest_of(table) == summary.digest
    from_frames = Digest()
    for frame in ledger.data_frames:
        from_frames.add(frames_to_batch([frame]))
    assert from_frames.text() == summary.digest
    in_slices = Digest()
    combined = table.combine_chunks()
    in_slices.add(frames_to_batch([]))
    for start in range(0, len(table), step):
        in_slices.add(combined.slice(start, step))
    assert in_slices.text() == summary.digest


def test_the_digest_of_an_object_stays_what_it_is() -> None:
    # Objects live for years: a change of the digest is a new format.
    assert encode(LEDGER)[1].digest == "v1-5608de742beb5261d4c6e6ce89394ab3"


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (schema.PRODUCER, pa.string()),
        (schema.PRODUCER, pa.large_string()),
        (schema.PRODUCER, pa.string_view()),
        (schema.KEY, pa.large_binary()),
        (schema.KEY, pa.dictionary(pa.int32(), pa.binary())),
        (schema.PAYLOAD, pa.binary_view()),
        (schema.PUBLISH_TIME, pa.timestamp("us", tz="Europe/Bucharest")),
        (schema.PUBLISH_TIME, pa.timestamp("ns", tz="UTC")),
        (schema.SCHEMA_VERSION, pa.int64()),
        (schema.ATTRIBUTES, pa.map_(pa.large_string(), pa.large_string())),
    ],
)
def test_the_type_of_a_column_does_not_matter(name: str, other: pa.DataType) -> None:
    table = records()
    changed = table.column(name)
    if pa.types.is_dictionary(changed.type):
        changed = changed.cast(pa.string())
    assert digest_of(put(table, name, changed.cast(other))) == digest_of(table)


def test_bytes_under_a_null_do_not_matter() -> None:
    table = records()
    count = len(table)
    nobody = pa.array([None] * count, pa.binary())
    offsets = np.arange(count + 1, dtype=np.int32)
    absent = np.zeros((count + 7) // 8, np.uint8)
    hidden = pa.Array.from_buffers(
        pa.binary(),
        count,
        [pa.py_buffer(absent), pa.py_buffer(offsets), pa.py_buffer(b"x" * count)],
    )
    assert hidden.null_count == count
    key = schema.KEY
    assert digest_of(put(table, key, hidden)) == digest_of(put(table, key, nobody))


def test_no_attributes_and_empty_ones_are_the_same() -> None:
    table = records()
    empty = [dict(entry or []) for entry in table.column(schema.ATTRIBUTES).to_pylist()]
    changed = pa.array([list(entry.items()) for entry in empty], schema.ATTRIBUTES_TYPE)
    assert not changed.null_count
    assert digest_of(put(table, schema.ATTRIBUTES, changed)) == digest_of(table)


def test_a_null_key_and_an_empty_one_are_not_the_same() -> None:
    table = records()
    filled = pc.fill_null(table.column(schema.KEY), b"")
    assert digest_of(put(table, schema.KEY, filled)) != digest_of(table)


@given(st.data())
def test_a_missing_repeated_or_moved_record_changes_it(data: st.DataObject) -> None:
    table = records()
    order = list(range(len(table)))
    place = data.draw(st.sampled_from(order))
    change = data.draw(st.sampled_from(["drop", "repeat", "move"]))
    if change == "drop":
        order.pop(place)
    elif change == "repeat":
        order.insert(place, place)
    else:
        order.insert(data.draw(st.sampled_from([p for p in order if p != place])), order.pop(place))
    assert digest_of(table.take(order)) != digest_of(table)


CHANGES: dict[str, Callable[[pa.ChunkedArray], pa.ChunkedArray]] = {
    schema.OFFSET: lambda column: pc.add(column, 1),
    schema.PUBLISH_TIME: lambda column: pc.add(column, pa.scalar(1, pa.duration("us"))),
    schema.PRODUCER: lambda column: pc.utf8_upper(column.cast(pa.string())),
    schema.SEQUENCE: lambda column: pc.add(column, 1),
    schema.KEY: lambda column: pc.binary_reverse(column),
    schema.PAYLOAD: lambda column: pc.binary_reverse(column),
    schema.SCHEMA_ID: lambda column: pc.add(column, 1),
    schema.SCHEMA_VERSION: lambda column: pc.add(column, pa.scalar(1, pa.int32())),
    schema.DELIVERY_TIME: lambda column: pc.add(column, pa.scalar(1, pa.duration("us"))),
    schema.ATTRIBUTES: lambda column: pa.chunked_array(
        [pa.array([[("", "x")]] * len(column), schema.ATTRIBUTES_TYPE)]
    ),
}


@pytest.mark.parametrize("name", schema.RECORD_SCHEMA.names)
@given(place=st.integers(0, len(records()) - 1))
def test_a_change_of_one_value_changes_it(name: str, place: int) -> None:
    table = records()
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    changed = CHANGES[name](column)
    one = pa.chunked_array(
        [
            column.slice(0, place).combine_chunks(),
            changed.slice(place, 1).combine_chunks(),
            column.slice(place + 1).combine_chunks(),
        ]
    )
    same = one.to_pylist() == column.to_pylist()
    assert (digest_of(put(table, name, one)) == digest_of(table)) is same


def test_a_table_that_lacks_something_is_refused() -> None:
    with pytest.raises(Refused, match="payload is missing"):
        digest_of(records().drop_columns([schema.PAYLOAD]))
    absent = pa.nulls(len(records()), pa.int64())
    with pytest.raises(Refused, match="every record must have a sequence"):
        digest_of(put(records(), schema.SEQUENCE, absent))
