"""One Spark session for all tests of a process: it takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
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
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(_spark_home(folder / "home")))
        session = new_session(folder)
    yield session
    session.stop()


def _spark_home(folder: Path) -> Path:
    """Spark without its archive of PySpark, which each Python process would load and compile.

    The processes load the installed package instead, with its bytecode, in a third of the time.
    Programs that tests start (``program.py``) use the archive, as deployed ones do.
    """
    folder.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "python":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> LakeFolder:
    """An empty lake."""
    return LakeFolder(tmp_path / "lake")
