"""Fixtures with a real server, results built once per run, folders that share an event loop.

A ``conftest.py`` offers them to its folder with
``from tests.support.fixtures import sulina_process as sulina_process``.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.server import SulinaProcess


@pytest.fixture
def sulina_process(tmp_path: Path) -> Iterator[SulinaProcess]:
    """A running server for one test, which may stop, kill and restart it."""
    with SulinaProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture(scope="session")
def shared_sulina_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SulinaProcess]:
    """A running server for all tests of a run: give each its own topics, and leave it up."""
    with SulinaProcess(tmp_path_factory.mktemp("sulina") / "data") as server:
        yield server


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


def share_loop(items: Iterable[pytest.Item], folder: Path) -> None:
    """For ``pytest_collection_modifyitems``: the asynchronous tests beneath ``folder``."""
    shared = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if folder in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(shared, append=False)
