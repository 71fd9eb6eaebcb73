"""What is dear to make, made by one process of a test run for all of them."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that ``make`` filled, in this process or in another one, which is waited for.

    One that failed is tried again by the next who asks, in an empty folder.
    """
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "making").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        tries = sorted(folder.glob("made-*"))
        if not (folder / "made").exists():
            made = folder / f"made-{len(tries)}"
            made.mkdir()
            make(made)
            (folder / "made").write_text(made.name)
        return folder / (folder / "made").read_text()
