"""Scale: a small measurement, and how points are kept, printed and plotted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale.__main__ import main
from benchmarks.scale.report import FILE


def test_points_of_slices_are_kept_together_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"topics": {"1": {"units": 1, "server_cpu_us_per_record": 70.0, "memory": 1 << 26}}}
    (tmp_path / FILE).write_text(json.dumps(kept))
    assert main(["topics", "--points", "3", "--seconds", "0.1", "--out", str(tmp_path)]) == 0
    kept = json.loads((tmp_path / FILE).read_text())
    assert list(kept["topics"]) == ["1", "3"]
    assert kept["topics"]["3"]["records_per_s"] > 0
    assert main(["report", "--out", str(tmp_path)]) == 0
    assert "server_cpu_us_per_record" in capsys.readouterr().out
    assert "| topics | 1 | 3 |" in (tmp_path / "scale.md").read_text()
    assert list((tmp_path / "data").iterdir()) == []


def test_a_report_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--out", str(tmp_path)]) == 1
    assert "nothing was measured" in capsys.readouterr().out
