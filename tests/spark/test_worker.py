"""Spark's archives are forgotten by Python's importers, and still there for imports."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from emr_jobs.source.worker import forget_archives


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
