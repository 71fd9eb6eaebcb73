"""One Spark session for all tests of a process: it takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import emr_jobs
from emr_jobs.java import find_java
from tests.spark.lake_folder import LakeFolder
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
    folder = tmp_path_factory.mktemp("spark")
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    emr_jobs.register(session)
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> LakeFolder:
    """An empty lake."""
    return LakeFolder(tmp_path / "lake")
