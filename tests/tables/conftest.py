"""A lake in a folder, and catalogs of each kind over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.tables import Tables
from tests.spark.lake_folder import LakeFolder
from tests.support.emulators import moto as moto

MakeTables = Callable[[], Tables]


@pytest.fixture
def lake(tmp_path: Path) -> LakeFolder:
    """An empty lake."""
    return LakeFolder(tmp_path / "lake")


@pytest.fixture
def make_tables(lake: LakeFolder, tmp_path: Path) -> MakeTables:
    """Opens the same SQLite catalog, each time as another process would."""

    def make() -> Tables:
        place = LakePlace.parse(str(lake.root))
        url = f"sqlite:///{tmp_path}/catalog.db"
        return Tables(Lake(place), open_catalog(url, place))

    return make


@pytest.fixture
def tables(make_tables: MakeTables) -> Tables:
    """Tables in a SQLite catalog."""
    return make_tables()
