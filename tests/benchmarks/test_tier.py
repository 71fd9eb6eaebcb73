"""A small run of the tier's benchmark, with objects in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.tier import main
from benchmarks.tier_lists import measure_lists


def test_a_small_run_measures_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--store", "folder", "--seconds", "0.5", "--ledger-mb", "1", "--json"]
    main([*options, "--out", str(tmp_path)])
    result = json.loads(capsys.readouterr().out)
    assert result["published"] > 0 and result["objects"] > 0
    for rate in ("publish", "tiered", "replay", "put", "read"):
        assert result[rate] > 0


async def test_a_list_of_many_ledgers_is_a_few_bytes_each_and_a_small_change() -> None:
    cost = await measure_lists(1000)
    assert cost.bytes_each < 150 and cost.change_bytes < 60_000
