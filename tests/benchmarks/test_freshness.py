"""The benchmark of freshness runs, and reports what it measured."""

from __future__ import annotations

import json

import pytest

from benchmarks.freshness import main


def test_freshness_and_objects_per_gb_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--freshness", "1", "--seconds", "1", "--rate", "200", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert 0 < found["p50"] <= found["p99"] and found["objects"] >= found["merged"] >= 1
    assert found["per_gb"] >= found["merged_per_gb"] > 0
