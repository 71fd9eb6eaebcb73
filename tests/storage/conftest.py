"""Stores of every backend for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage_grpc.entries import EntryStore
from tests.storage.stores import Backend, JournalBackend, MemoryBackend


@pytest.fixture(params=["memory", "journal in memory", "journal in a folder"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EntryStore]:
    """An empty store of each backend."""
    backend: Backend
    if request.param == "memory":
        backend = MemoryBackend()
    elif request.param == "journal in memory":
        backend = JournalBackend()
    else:
        backend = JournalBackend(tmp_path)
    yield await backend.open()
    await backend.close()


@pytest.fixture(params=["in memory", "in a folder"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JournalBackend]:
    """A journal, not yet open, on each kind of disk."""
    backend = JournalBackend(tmp_path if request.param == "in a folder" else None)
    yield backend
    await backend.close()
