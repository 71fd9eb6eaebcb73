"""The benchmark of compaction, with few records and without processes of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compaction
from benchmarks.compaction import CompactionOptions, measure


def test_both_phases_are_measured_and_the_result_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inline(work: Callable[[], Any]) -> Any:
        return work()

    monkeypatch.setattr(compaction, "_apart", inline)
    options = CompactionOptions(records=9000, keys=700, ledger_records=3000, run_records=6000)
    rates = measure(options, tmp_path)
    assert rates.left == rates.compaction.records <= 700
    assert (rates.copy.records, rates.copy.objects, rates.compaction.objects) == (9000, 2, 2)
    assert rates.rate(rates.copy) > 0 and rates.compaction.bytes < rates.copy.bytes
