"""One event loop for the tests of this folder: gRPC's poller belongs to the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.tier.remote.cluster import TierCluster, tier_cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    shared = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(shared, append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def cluster() -> AsyncIterator[TierCluster]:
    async with tier_cluster() as made:
        yield made
