"""Tests of a folder that share one event loop, for fixtures that last for the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import pytest_asyncio


def share_loop(items: Iterable[pytest.Item], folder: Path) -> None:
    """For ``pytest_collection_modifyitems``: the asynchronous tests beneath ``folder``."""
    shared = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if folder in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(shared, append=False)
