"""The index of one ledger against a plain dictionary."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from storage_grpc.journal.runs import EntryRun, EntryRuns

PLACES = st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 500))
RUNS = st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 15))


def check(runs: EntryRuns, model: dict[int, tuple[int, int, int]]) -> None:
    for first in range(60):
        expected: list[tuple[int, int, int, int]] = []
        while (entry := first + len(expected)) in model:
            expected.append((entry, *model[entry]))
        assert list(runs.walk(first)) == expected
        assert (runs.find(first) is not None) == (first in model)
    stops = [(run.first, run.stop) for run in runs.items]
    assert stops == sorted(stops)
    assert sum(len(run.lengths) for run in runs.items) == len(model)
    last = min(model, default=-1)
    while last + 1 in model:
        last += 1
    assert runs.last_before_gap() == last


@given(st.lists(PLACES, max_size=60))
def test_entries_added_in_any_order_are_found_at_their_latest_place(
    places: list[tuple[int, int, int]],
) -> None:
    runs = EntryRuns()
    model: dict[int, tuple[int, int, int]] = {}
    for step, (entry, file, length) in enumerate(places):
        replaced = model[entry][2] if entry in model else 0
        assert runs.add(entry, file, step * 8, length) == replaced
        model[entry] = (file, step * 8, length)
    check(runs, model)


@given(st.lists(RUNS, max_size=15))
def test_runs_laid_over_each_other_show_the_latest(wanted: list[tuple[int, int, int]]) -> None:
    runs = EntryRuns()
    model: dict[int, tuple[int, int, int]] = {}
    for step, (first, file, count) in enumerate(wanted):
        entries = range(first, first + count)
        replaced = sum(model[entry][2] for entry in entries if entry in model)
        run = EntryRun(
            file,
            first,
            array("I", (step * 100 + i for i in range(count))),
            array("I", (step + i + 1 for i in range(count))),
        )
        assert runs.insert(run) == replaced
        for i, entry in enumerate(entries):
            model[entry] = (file, (step * 100 + i) * 8, step + i + 1)
    check(runs, model)


def test_entries_in_order_are_one_run_of_eight_bytes_each() -> None:
    runs = EntryRuns()
    for entry in range(100_000):
        runs.add(entry, 1, entry * 8, 1)
    [run] = runs.items
    assert run.positions.itemsize + run.lengths.itemsize == 8
    assert runs.last_before_gap() == 99_999
