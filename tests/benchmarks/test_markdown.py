"""The run as Markdown: tables, and where Sulina is behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.markdown import BEGIN, END, publish, worse
from tests.benchmarks.sample import result, results


def test_a_run_replaces_the_last_one_in_both_documents(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    paths = [tmp_path / "README.md", tmp_path / "docs" / "benchmarks.md"]
    for path in paths:
        path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        assert publish(results(), tmp_path) == paths
    for path in paths:
        text = path.read_text()
        assert text.startswith("before\n") and text.endswith("\nafter\n")
        assert "old" not in text
        assert "1,200,000" in text
        assert "Redis Streams 7 †" in text
    assert "40,000, 4 MB/s (30 x)" in paths[1].read_text()
    assert "failed" in paths[1].read_text()


def test_a_document_without_a_place_for_the_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing\n")
    with pytest.raises(ValueError, match="no place for the run"):
        publish(results(), tmp_path)


def test_it_is_said_where_sulina_is_behind() -> None:
    run = results([result(per_s=500), result("redis", per_s=1000, memory=10 << 20)])
    assert worse(run) == ["- Redis Streams 7 † (throughput, 100 B): rate 0.50 x, memory 0.20 x"]
