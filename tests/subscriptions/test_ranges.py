"""A set of ranges against a set of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.ranges import RangeSet
from sulina.wire import selection

spans = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))


def members(ranges: RangeSet) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def model(added: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in added for offset in range(first, last + 1)}


@given(st.lists(spans, max_size=12))
def test_a_range_set_holds_what_was_added(added: list[tuple[int, int]]) -> None:
    ranges = RangeSet(added)
    assert members(ranges) == model(added)


@given(st.lists(spans, max_size=12))
def test_its_ranges_rise_and_neither_overlap_nor_touch(added: list[tuple[int, int]]) -> None:
    ranges = list(RangeSet(added))
    assert all(first <= last for first, last in ranges)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ranges))
    assert len(RangeSet(added)) == len(ranges)


@given(st.lists(spans, max_size=12), st.integers(0, 80), st.integers(1, 30))
def test_its_mask_selects_the_members(added: list[tuple[int, int]], base: int, count: int) -> None:
    mask = RangeSet(added).mask(base, count)
    wanted = model(added)
    assert selection.indices(mask) == [i for i in range(count) if base + i in wanted]


@given(st.lists(spans, max_size=12), st.integers(0, 80))
def test_the_end_of_a_run_is_the_first_offset_that_is_missing(
    added: list[tuple[int, int]], offset: int
) -> None:
    wanted = model(added)
    missing = next(o for o in range(offset, 200) if o not in wanted)
    assert RangeSet(added).end_of_run(offset) == missing


@given(st.lists(spans, max_size=12), st.integers(0, 80))
def test_what_is_below_is_dropped(added: list[tuple[int, int]], offset: int) -> None:
    ranges = RangeSet(added)
    ranges.drop_below(offset)
    assert members(ranges) == {o for o in model(added) if o >= offset}
    ranges.clear()
    assert len(ranges) == 0 and list(ranges) == []


@given(st.lists(spans, max_size=30), st.integers(1, 4))
def test_a_full_set_forgets_but_never_invents(added: list[tuple[int, int]], limit: int) -> None:
    ranges = RangeSet(limit=limit)
    for first, last in added:
        ranges.add(first, last)
        assert len(ranges) <= limit
    assert members(ranges) <= model(added)


def test_a_full_set_still_grows_at_its_edges() -> None:
    ranges = RangeSet([(10, 10), (20, 20)], limit=2)
    ranges.add(30, 30)
    ranges.add(11, 15)
    ranges.add(19, 19)
    assert list(ranges) == [(10, 15), (19, 20)]
    ranges.add(16, 18)
    ranges.add(30, 30)
    assert list(ranges) == [(10, 20), (30, 30)]
