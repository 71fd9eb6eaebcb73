"""``sulina table backfill``: what it does when topics, lakes and catalogs come and go."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sulina.cli.app import run
from sulina.names import TopicName
from sulina.tables.tables import Tables
from tests.spark.lake_folder import LakeFolder

ORDERS = TopicName.parse("/default/orders")
Backfill = Callable[..., int]


@pytest.fixture
def backfill(lake: LakeFolder, tmp_path: Path) -> Backfill:
    """Runs the command; returns its exit code."""
    place = ["--lake", str(lake.root), "--catalog", f"sqlite:///{tmp_path}/catalog.db"]
    return lambda *arguments: run(["table", "backfill", *arguments, *place])


def test_a_topic_without_objects_is_told_apart_from_one_without_a_table(
    lake: LakeFolder, backfill: Backfill, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.add(str(ORDERS), 10)
    assert backfill("/default/oders") == 1
    assert "neither objects in" in capsys.readouterr().err


def test_all_updates_also_tables_whose_objects_are_all_deleted(
    lake: LakeFolder, backfill: Backfill, tables: Tables
) -> None:
    lake.add(str(ORDERS), 10)
    lake.add("/default/clicks", 10)
    assert backfill("--all") == 0
    shutil.rmtree(lake.root / "ledgers" / "namespace=default" / "topic=orders")
    assert backfill("--all") == 0
    assert tables.describe(ORDERS).objects == 0


def test_all_goes_on_after_a_topic_that_can_have_no_table(
    lake: LakeFolder, backfill: Backfill, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("/default/a-b", "/default/a_b", "/default/orders"):
        lake.add(topic, 10)
    assert backfill("--all") == 1
    assert "/default/a_b was left out" in capsys.readouterr().err
    assert tables.describe(ORDERS).records == 10


def test_every_waits_for_a_lake_and_a_catalog_that_are_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    command = [sys.executable, "-m", "sulina.cli", "table", "backfill", "--all", "--every", "1"]
    for catalog, said in (
        (f"sqlite:///{tmp_path}/catalog.db", "has no folder ledgers"),
        ("http://127.0.0.1:9/nothing", "could not be opened"),
    ):
        place = ["--lake", str(tmp_path / "lake"), "--catalog", catalog]
        with subprocess.Popen([*command, *place], stderr=subprocess.PIPE, text=True) as ran:
            assert ran.stderr is not None
            lines = [ran.stderr.readline(), ran.stderr.readline()]
            ran.kill()
        assert all(said in line and "trying again in 1 s" in line for line in lines), lines
