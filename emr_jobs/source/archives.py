"""Keeps Spark's own archives out of what each task has to read again.

Before each task a Python worker of Spark 4.0, though it is one that ran before, drops what it
knows of the places to import from. For a zip archive Python then reads its whole directory at
once; for those that Spark puts on the path this takes 0.15 to 0.2 seconds of CPU, several times
what is needed to hand over a partition. Later versions drop it only if the path changed.

An importer that nobody remembers is not asked to read again, so those of Spark's archives are
forgotten at the end of each task. They never change while a worker lives, and Python still has
their directories for the next import from them.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final
from zipimport import zipimporter

_SPARKS: Final = ("pyspark.zip", "py4j-*.zip", "spark-core_*.jar")


def forget_archives() -> None:
    """Forget the importers of Spark's archives. Imports from them work as before."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and _is_sparks(importer.archive):
            sys.path_importer_cache.pop(path, None)


def _is_sparks(archive: str) -> bool:
    name = PurePath(archive).name
    return any(fnmatchcase(name, each) for each in _SPARKS)
