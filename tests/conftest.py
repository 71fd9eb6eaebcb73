"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Collecting loads half a million objects that all stay: looking through them again and again for
# garbage took a quarter of the time.
gc.disable()

# Before anything imports gRPC, which else breaks children that are forked while it works: Spark
# starts Java that way, and that child may die before it is Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# Tests start hundreds of Python processes. Without cached bytecode each of them compiles our code,
# a third of the CPU time that a broker takes to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# For Spark, which runs for seconds: compiling its code thoroughly takes longer than running it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell starts what runs in the background with Ctrl-C ignored, and so would be whatever the tests
# start: they could not end it as a person does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No time limit for an example: machines differ, and ours are busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

_FIRST = ("spark", "end_to_end", "infra", "functions", "localstack", "faults", "chaos")
"""Folders with the longest tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no process works on one alone in the end.

    With ``--dist worksteal`` the first process gets the first half of the list, and the others take
    over tests from its end: a single process runs all tests of Spark, with a single session.
    """
    places = {folder: place for place, folder in enumerate(_FIRST)}
    top = Path(__file__).parent
    items.sort(key=lambda item: places.get(item.path.relative_to(top).parts[0], len(places)))


def pytest_collection_finish() -> None:
    """Collect garbage again, only among what the tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()
