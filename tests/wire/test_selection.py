"""Masks against the plainest model there is: a set of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import ProtocolError
from sulina.wire import selection
from sulina.wire.header import MAX_RECORDS

numbers = st.frozensets(st.integers(0, 200) | st.integers(0, 2_000), max_size=60)


def mask_of(chosen: frozenset[int] | set[int]) -> int:
    return sum(1 << number for number in chosen)


@given(numbers)
def test_indices_are_the_numbers_in_the_mask_rising(chosen: frozenset[int]) -> None:
    assert selection.indices(mask_of(chosen)) == sorted(chosen)


@given(numbers)
def test_ranges_are_the_longest_runs_rising(chosen: frozenset[int]) -> None:
    runs = list(selection.ranges(mask_of(chosen)))
    assert [n for first, last in runs for n in range(first, last + 1)] == sorted(chosen)
    assert all(first - 1 not in chosen and last + 1 not in chosen for first, last in runs)


@given(numbers)
def test_pick_takes_the_selected_values(chosen: frozenset[int]) -> None:
    values = [f"value {number}" for number in range(2_001)]
    assert selection.pick(values, mask_of(chosen)) == [values[n] for n in sorted(chosen)]


@given(numbers, st.integers(0, 70))
def test_lowest_keeps_the_first_so_many(chosen: frozenset[int], limit: int) -> None:
    assert selection.lowest(mask_of(chosen), limit) == mask_of(set(sorted(chosen)[:limit]))


@given(st.integers(0, 300), st.integers(-1, 300))
def test_whole_and_span_are_what_their_bounds_say(first: int, last: int) -> None:
    assert selection.whole(first) == mask_of(set(range(first)))
    assert selection.span(first, last) == mask_of(set(range(first, last + 1)))


@given(st.binary(max_size=300), st.frozensets(st.integers(0, 255)))
def test_slots_choose_the_records_that_have_them(slots: bytes, chosen: frozenset[int]) -> None:
    mask = selection.of_slots(slots, selection.slot_table(chosen))
    assert selection.indices(mask) == [i for i, slot in enumerate(slots) if slot in chosen]


@given(numbers)
def test_a_mask_comes_back_from_the_wire_as_it_was(chosen: frozenset[int]) -> None:
    mask = mask_of(chosen)
    assert selection.from_bytes(selection.to_bytes(mask)) == mask
    assert selection.from_bytes(selection.to_bytes(mask) + bytes(5)) == mask


def test_the_largest_mask_passes_and_a_longer_one_does_not() -> None:
    largest = selection.whole(MAX_RECORDS)
    assert selection.from_bytes(selection.to_bytes(largest)) == largest
    assert selection.indices(largest) == list(range(MAX_RECORDS))
    with pytest.raises(ProtocolError):
        selection.from_bytes(bytes(MAX_RECORDS // 8 + 1))
