"""Spares Spark's Python workers work that they would repeat with each task.

Spark keeps a worker for many tasks, and cleans up between them as if it knew nothing about it:

* Versions 4.0 drop what Python knows of the places to import from, before each task. For a zip
  archive Python then reads its whole directory at once; for those that Spark puts on the path this
  takes 0.15 to 0.2 seconds of CPU. Later versions drop it only if the path changed. An importer
  that nobody remembers is not asked to read again, so those of Spark's archives are forgotten at
  the end of each task. They never change while a worker lives, and Python still has their
  directories for the next import from them.
* All versions look for garbage after each task, in all objects that there are: with the modules of
  Arrow and Spark loaded, 0.03 seconds. Those that were there after the first task stay for as long
  as the worker lives, so they are set aside and not looked at again.

Both are several times what is needed to hand over a partition.
"""

from __future__ import annotations

import gc
import os
import sys
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePath
from typing import Final
from zipimport import zipimporter

_SPARKS: Final = ("pyspark.zip", "py4j-*.zip", "spark-core_*.jar")


def spare_worker() -> None:
    """Call it at the end of what a worker does for Spark. Imports and garbage work as before."""
    forget_archives()
    if os.environ.get("SPARK_REUSE_WORKER"):  # elsewhere it is the user's process
        _set_aside()


def forget_archives() -> None:
    """Forget the importers of Spark's archives. Imports from them work as before."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and _is_sparks(importer.archive):
            sys.path_importer_cache.pop(path, None)


@cache
def _set_aside() -> None:
    """Once in a process: what is frozen while it is garbage already would never go."""
    gc.collect()
    gc.freeze()


def _is_sparks(archive: str) -> bool:
    name = PurePath(archive).name
    return any(fnmatchcase(name, each) for each in _SPARKS)
