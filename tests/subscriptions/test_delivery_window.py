"""The window: loaded frames, what of them is done, and the cursor that follows from it."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.ranges import RangeSet
from sulina.wire import selection

LIMIT = 10_000


def window(
    *counts: int, position: int = 0, acked: tuple[tuple[int, int], ...] = ()
) -> DeliveryWindow:
    """A window with frames of so many records, loaded from ``position`` on."""
    made = DeliveryWindow(position, RangeSet(acked))
    for count in counts:
        made.load(made.read_offset, count, 100, 0)
    return made


def undone(made: DeliveryWindow, end: int) -> set[int]:
    """The offsets below ``end`` that a window with this one's cursor would deliver."""
    position, acked = made.position, made.acked_ranges(LIMIT)
    done = {offset for first, last in acked for offset in range(first, last + 1)}
    return set(range(position, end)) - done


def test_the_position_is_the_lowest_record_not_done() -> None:
    w = window(3, 3)
    assert w.position == 0
    w.settle_range(1, 2)
    assert w.position == 0
    w.settle_range(0, 0)
    assert w.position == 3
    w.settle_range(3, 5)
    assert w.position == 6 and len(w) == 0 and w.records == 0


def test_acknowledged_ranges_lie_above_the_position() -> None:
    w = window(5, 5, 5)
    w.settle_range(2, 2)
    w.settle_range(4, 6)
    w.settle_range(10, 14)
    assert w.position == 0
    assert w.acked_ranges(LIMIT) == [(2, 2), (4, 6), (10, 14)]
    assert w.acked_ranges(2) == [(2, 2), (4, 6)]


def test_a_frame_that_is_wholly_done_leaves_the_window_but_not_the_cursor() -> None:
    w = window(2, 2, 2)
    w.settle_range(2, 3)
    assert len(w) == 2 and w.records == 4
    assert w.acked_ranges(LIMIT) == [(2, 3)]


def test_records_done_before_they_are_loaded_are_remembered() -> None:
    w = window(2)
    assert w.settle_range(0, 5) == 2
    assert w.position == 6
    assert w.load(2, 3, 100, 0) is None
    loaded = w.load(5, 3, 100, 0)
    assert loaded is not None and selection.indices(loaded.undone) == [1, 2]
    assert w.position == 6


def test_acknowledgements_ahead_of_an_empty_window_stay_in_the_cursor() -> None:
    w = window(position=5, acked=((8, 9), (12, 12)))
    assert (w.position, w.acked_ranges(LIMIT)) == (5, [(8, 9), (12, 12)])
    w.settle_range(5, 7)
    assert (w.position, w.acked_ranges(LIMIT)) == (10, [(12, 12)])


def test_loading_may_begin_within_a_frame() -> None:
    w = window(position=5)
    loaded = w.load(3, 4, 100, 0)
    assert loaded is not None and selection.indices(loaded.undone) == [2, 3]
    assert w.position == 5 and w.read_offset == 7


def test_what_is_skipped_counts_as_done() -> None:
    w = window(2, acked=((3, 3), (9, 9)))
    w.skip_to(8)
    assert w.position == 0 and w.acked_ranges(LIMIT) == [(2, 7), (9, 9)]
    w.settle_range(0, 1)
    assert w.position == 8 and w.acked_ranges(LIMIT) == [(9, 9)]


def test_a_mask_narrows_a_range_from_its_first_offset_on() -> None:
    w = window(3, 3, 3)
    w.settle_range(1, 7, 0b100_1101)
    assert w.acked_ranges(LIMIT) == [(1, 1), (3, 4), (7, 7)]


def test_a_mask_longer_than_its_range_does_not_reach_beyond_it() -> None:
    w = window(3)
    w.settle_range(1, 4, 0b1111_1111)
    assert w.position == 0 and w.acked_ranges(LIMIT) == [(1, 4)]
    w.settle_range(5, 6, 0b1000_1000)
    assert w.acked_ranges(LIMIT) == [(1, 4)]


def test_a_mask_far_from_what_is_loaded_costs_no_memory() -> None:
    w = window(3)
    tracemalloc.start()
    try:
        w.settle_range(10**12, 10**12 + 7, 0b1010_0001)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert w.acked_ranges(LIMIT) == [(10**12 + i,) * 2 for i in (0, 5, 7)]


def test_frames_are_found_by_offset() -> None:
    w = window(3, 3, 3)
    w.settle_range(3, 5)
    assert w.find(4) is None
    assert w.find(9) is None
    found = w.find(2)
    assert found is not None and found.base == 0
    assert [loaded.base for loaded in w.between(2, 6)] == [0, 6]
    assert [loaded.base for loaded in w.between(3, 5)] == []
    assert [loaded.base for loaded in w.between(0, 100)] == [0, 6]


acks = st.tuples(st.integers(0, 45), st.integers(0, 10), st.none() | st.integers(0, 2_000))


@given(
    st.integers(0, 6),
    st.lists(st.integers(1, 6), min_size=8, max_size=8),
    st.lists(acks | st.just("load"), max_size=25),
)
def test_the_cursor_is_what_was_not_acknowledged_and_survives_a_restart(
    position: int, counts: list[int], steps: list[tuple[int, int, int | None] | str]
) -> None:
    frames = list(counts)
    w = window(position=position)
    base = 0
    expected = set(range(position, sum(counts)))
    for step in steps:
        if isinstance(step, str):
            if frames:
                w.load(base, frames[0], 100, 0) if base + frames[0] > position else None
                base += frames.pop(0)
            continue
        first, length, mask = step
        last = min(first + length, sum(counts) - 1)
        if first > last:
            continue
        w.settle_range(first, last, mask)
        for offset in range(first, last + 1):
            if mask is None or mask >> (offset - first) & 1:
                expected.discard(offset)
    assert w.position == min(expected, default=w.position)
    assert undone(w, sum(counts)) == expected
    # The cursor alone is enough to go on: loading everything again delivers exactly the rest.
    again = DeliveryWindow(w.position, RangeSet(w.acked_ranges(LIMIT)))
    ready: set[int] = set()
    base = 0
    for count in counts:
        loaded = again.load(base, count, 100, 0) if base + count > again.read_offset else None
        if loaded is not None:
            ready |= {base + index for index in selection.indices(loaded.todo[1])}
        base += count
    assert ready == expected
    assert undone(again, sum(counts)) == expected
