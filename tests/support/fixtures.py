"""Fixtures for tests with a real server.

A ``conftest.py`` offers them to its folder with
``from tests.support.fixtures import sulina_process as sulina_process``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
