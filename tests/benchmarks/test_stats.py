"""Percentiles, ratios and the names of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats import percentile, ratio, steady, summarize
from benchmarks.units import count_name, parse_size, size_name, times_name


def test_a_percentile_is_the_sample_that_so_many_do_not_exceed() -> None:
    ordered = [float(number) for number in range(1, 1001)]
    assert percentile(ordered, 0.5) == 500
    assert percentile(ordered, 0.99) == 990
    assert percentile(ordered, 0.999) == 999


def test_few_samples_give_their_worst_as_the_tail() -> None:
    summary = summarize([3.0, 1.0, 2.0])
    assert (summary.p50, summary.p99, summary.p999, summary.worst) == (2.0, 3.0, 3.0, 3.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_every_percentile_is_a_sample_and_at_least_its_share_lies_at_or_below(
    samples: list[float], share: float
) -> None:
    value = percentile(sorted(samples), share)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= share * len(samples) - 1e-5


def test_the_first_tenth_is_warm_up() -> None:
    assert list(steady(range(20))) == list(range(2, 20))


def test_there_is_no_ratio_to_nothing() -> None:
    assert ratio(1, 0) is None
    assert ratio(6, 3) == 2


def test_numbers_are_named_as_people_read_them() -> None:
    assert [size_name(size) for size in (100, 1024, 16384, 3 << 20)] == [
        "100 B",
        "1 KiB",
        "16 KiB",
        "3 MiB",
    ]
    assert [count_name(count) for count in (12, 43_210, 1_234_567)] == ["12", "43.2 k", "1.23 M"]
    assert [times_name(times) for times in (None, 0.5, 1.26, 99.6)] == [
        "",
        "0.50 x",
        "1.3 x",
        "100 x",
    ]


@pytest.mark.parametrize(
    ("text", "size"), [("100", 100), ("1k", 1024), ("16KiB", 16384), ("2mib", 2 << 20)]
)
def test_sizes_are_read_in_the_usual_ways(text: str, size: int) -> None:
    assert parse_size(text) == size
