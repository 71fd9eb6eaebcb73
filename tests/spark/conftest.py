"""One Spark session for all tests of a process: it takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emr_jobs.java import prepare_java
from tests.spark.lake_folder import LakeFolder
from tests.spark.program import new_session
from tests.support.emulators import moto as moto
from tests.support.fixtures import shared_sulina_process as shared_sulina_process

_HERE = Path(__file__).parent
_SECONDS = 600
"""For a test, with the session's start: far more than it takes, also on a slow machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local Spark with the data source."""
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = new_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> LakeFolder:
    """An empty lake."""
    return LakeFolder(tmp_path / "lake")
