"""``sulina bench --trace``: where the time of single records goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sulina.cli.bench import picture
from sulina.cli.bench.waterfall import RecordTrace, waterfall
from sulina.runtime.stages import Stage, Stamp, pack, unpack, within
from tests.cli.runner import SulinaCommand

_ONE_PROCESS = [
    *("client batch", "client send", "socket", "door and topic", "journal queue", "hand-over"),
    *("write and sync", "hand-back", "confirmation", "reply", "dispatch", "delivery", "client"),
]


def _trace(due: int, *ends: tuple[Stage, int]) -> RecordTrace:
    return RecordTrace.of(due, [Stamp(*each) for each in ends], {})


def test_the_stages_of_single_records_add_up_to_their_time(
    sulina: SulinaCommand, tmp_path: Path
) -> None:
    drawn = tmp_path / "trace.svg"
    ran = sulina(*("bench", "--count", "400", "--rate", "400", "--trace-svg", str(drawn), "--json"))
    told = ran.json()["figures"]["trace"]
    assert [stage["name"] for stage in told["stages"]] == _ONE_PROCESS
    assert 10 < told["records"] <= 400
    for total, part in (("total_p50", "at_p50"), ("total_p99", "at_p99")):
        assert sum(stage[part] for stage in told["stages"]) == pytest.approx(told[total], abs=0.01)
    assert told["acknowledged_p50"] > 0
    assert drawn.read_text().count("<title>") == 2 * len(_ONE_PROCESS)


def test_the_waterfall_shows_what_is_slow_at_each_percentile() -> None:
    fast = [_trace(0, (Stage.PACKED, 10**6), (Stage.TAKEN, 2 * 10**6))] * 90
    slow = [_trace(0, (Stage.PACKED, 10**6), (Stage.TAKEN, 9 * 10**6))] * 10
    found = waterfall([*slow, *fast])
    assert found is not None
    assert (found.total_p50, found.total_p99) == (2.0, 9.0)
    assert [(stage.at_p50, stage.at_p99) for stage in found.stages] == [(1.0, 1.0), (1.0, 8.0)]
    shown = picture.lines(found)
    assert "at p50: 2.00 ms" in shown[1] and "at p99: 9.00 ms" in shown[1]
    assert shown[-1].split()[0] == "client"
    assert waterfall([]) is None


def test_the_times_of_another_machine_are_moved_between_those_of_this_one() -> None:
    there = [Stamp(Stage.ARRIVED, 10_000), Stamp(Stage.CONFIRMED, 10_100)]
    assert within(there, 0, 300) == [(Stage.ARRIVED, 100), (Stage.CONFIRMED, 200)]
    assert within(there, 9_990, 10_200) == there
    assert unpack(pack(there) + b"cut") == there


def test_nothing_is_traced_unless_it_is_asked_for(sulina: SulinaCommand) -> None:
    assert json.loads(sulina("bench", "--count", "10", "--json").stdout)["figures"]["trace"] is None
