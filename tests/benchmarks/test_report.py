"""The tables, the JSON and the plot of a run."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import print_report, profile_table
from benchmarks.results import to_json
from tests.benchmarks.sample import result, results


def printed(width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(results(), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_report_shows_rates_ratios_failures_and_what_was_left_out() -> None:
    text = printed()
    assert "1,200,000" in text
    assert "30 x" in text
    assert "failed: the producer failed: it was tired" in text
    assert "(rate not kept)" in text
    assert "skipped: install sulina[bench]" in text


def test_the_report_says_what_an_acknowledgement_means() -> None:
    text = printed()
    assert "synced too" in text
    assert "Redis Streams †" in text


def test_the_report_judges_the_targets() -> None:
    text = printed()
    assert text.count("pass") == 3
    assert "FAIL" not in text


def test_a_profile_gives_the_share_of_each_process() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(profile_table(result(per_s=1_000_000)))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "50%" in text
    assert "500" in text


def test_the_json_has_measurements_ratios_and_settings() -> None:
    document = json.loads(to_json(results()))
    assert document["systems"][1]["durability"] == "synced too"
    redis = document["cells"][1]
    assert redis["sulina_is_better_by"]["throughput"] == 30.0
    assert document["cells"][3]["reason"] == "the producer failed: it was tired"
    assert document["cells"][5]["kept_rate"] is False
    assert len(document["targets"]) == 3


def test_the_plot_is_an_svg_and_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs what `make bench` installs")
    from benchmarks.plot import write_plot

    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    write_plot(results(), first)
    write_plot(results(), second)
    assert xml.etree.ElementTree.parse(first).getroot().tag.endswith("svg")
    assert first.read_bytes() == second.read_bytes()


def test_a_run_in_which_everything_failed_can_still_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs what `make bench` installs")
    from benchmarks.plot import write_plot

    write_plot(results([]), tmp_path / "empty.svg")
