"""Drafts become frames that hold exactly what was added."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sulina.client.batching import OpenBatch, fitting
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin

NOON = 1_700_000_000_000_000
payloads = st.binary(max_size=20)
keys = st.one_of(st.none(), st.binary(max_size=4))
attributes = st.one_of(
    st.none(), st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
)
times = st.integers(NOON - 1000, NOON + 1000)
records = st.tuples(payloads, keys, attributes)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("one"), records, times),
        st.tuples(st.just("many"), st.lists(records, min_size=1, max_size=5), times),
    ),
    min_size=1,
    max_size=8,
)


@given(steps)
def test_a_frame_holds_what_was_added_in_order(steps: list[tuple[str, Any, int]]) -> None:
    open_batch = OpenBatch("/default/t", NOON)
    expected: list[tuple[bytes, bytes | None, dict[str, str], int]] = []
    for kind, what, time in steps:
        if kind == "one":
            payload, key, pairs = what
            assert open_batch.add(payload, key, pairs, time, 1) == len(expected)
            expected.append((payload, key, dict(pairs or {}), time))
        else:
            rows = list(what)
            last = open_batch.extend(
                [row[0] for row in rows],
                [row[1] for row in rows] if any(row[1] is not None for row in rows) else None,
                [row[2] for row in rows] if any(row[2] for row in rows) else None,
                time,
                len(rows),
            )
            expected += [(row[0], row[1], dict(row[2] or {}), time) for row in rows]
            assert last == len(expected) - 1
    frame = Frame(open_batch.encode(Origin("me"), 7, Compression.NONE))
    count = len(expected)
    assert open_batch.cost == frame.count == count
    assert frame.payloads == [row[0] for row in expected]
    assert (frame.keys or [None] * count) == [row[1] for row in expected]
    assert (frame.attributes or [{}] * count) == [row[2] for row in expected]
    assert frame.times == [row[3] for row in expected]
    assert frame.header.first_sequence == 7


def test_records_of_one_time_need_no_column_of_times() -> None:
    open_batch = OpenBatch("/default/t", NOON)
    open_batch.add(b"a", None, None, NOON, 1)
    open_batch.extend([b"b", b"c"], None, None, NOON, 2)
    assert open_batch.times is None
    assert open_batch.keys is None
    assert open_batch.attributes is None


def test_a_draft_takes_no_record_of_another_hour() -> None:
    open_batch = OpenBatch("/default/t", NOON)
    assert open_batch.takes(NOON + 60_000_000)
    assert not open_batch.takes(NOON + 3600_000_000)
    assert not open_batch.takes(NOON - 3600_000_000)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 100), st.integers(1, 10)
)
def test_a_list_is_cut_into_pieces_that_fit(costs: list[int], room: int, most: int) -> None:
    totals = list(accumulate(costs))
    start = 0
    while start < len(costs):
        end = fitting(totals, start, room, most)
        assert end - start <= most
        assert sum(costs[start:end]) <= room
        if end < len(costs) and end - start < most:
            assert sum(costs[start : end + 1]) > room
        start = max(end, start + 1)
