"""The chart of the README's tour."""

from __future__ import annotations

from pathlib import Path

import pytest

from localstack.tour import TOPIC, main, orders
from tests.spark.lake_folder import LakeFolder

COUNT = 500


@pytest.mark.usefixtures("spark")
def test_orders_become_a_chart(
    lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.partition("|")[2].encode() for line in orders(COUNT)]
    lake.add(TOPIC, COUNT, payloads=lines)
    chart = tmp_path / "chart.png"
    assert main(["chart", "--path", str(lake.root), "--output", str(chart)]) == 0
    assert capsys.readouterr().out.startswith(f"{COUNT} orders in ")
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_without_a_lake_people_are_told_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SULINA_TIER", raising=False)
    assert main(["chart"]) == 2
    assert "set the lake with --path, or source" in capsys.readouterr().err
