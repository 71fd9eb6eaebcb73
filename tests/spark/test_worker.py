"""Workers are spared what they would repeat with each task, and work as before."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from emr_jobs.source import worker
from emr_jobs.source.worker import forget_archives, spare_worker


def archive(folder: Path, name: str, *modules: str) -> str:
    path = folder / name
    with ZipFile(path, "w") as made:
        for module in modules:
            made.writestr(f"{module}.py", f"name = {module!r}\n")
    return str(path)


def test_an_archive_of_spark_is_not_read_again_before_each_task_and_can_be_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparks = archive(tmp_path, "pyspark.zip", "first_of_spark", "second_of_spark")
    users = archive(tmp_path, "users.zip", "of_a_user")
    for path in (sparks, users):
        monkeypatch.syspath_prepend(path)
    importlib.import_module("first_of_spark")
    importlib.import_module("of_a_user")
    forget_archives()
    assert sparks not in sys.path_importer_cache
    assert users in sys.path_importer_cache
    assert importlib.import_module("second_of_spark").name == "second_of_spark"


@pytest.fixture
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as one that Spark keeps for many tasks, and as it was afterwards."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    yield
    gc.unfreeze()
    worker._set_aside.cache_clear()


class CyclicNode:
    """Refers to itself, so that only a look for garbage frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("fresh_worker")
def test_what_was_there_after_the_first_task_is_set_aside_once_and_garbage_still_goes() -> None:
    before = weakref.ref(CyclicNode())
    spare_worker()
    aside = gc.get_freeze_count()
    assert aside > 10_000, "the modules of Spark and Arrow, at least"
    assert before() is None, "what was garbage already is not kept"
    after = weakref.ref(CyclicNode())
    spare_worker()
    gc.collect()
    assert after() is None
    assert gc.get_freeze_count() <= aside, "what a later task leaves is not set aside"


def test_nothing_is_set_aside_in_a_process_that_is_no_worker() -> None:
    spare_worker()
    assert gc.get_freeze_count() == 0
