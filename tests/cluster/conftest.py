"""Clusters for the tests of this folder, which share them and one event loop.

Starting five processes takes seconds of CPU; mending what a test broke takes one.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster, cluster
from tests.faults.seeds import seeded
from tests.support.fixtures import share_loop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    share_loop(items, folder)
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def rng() -> Iterator[random.Random]:
    """Randomness that can be repeated."""
    with seeded() as source:
        yield source


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def nodes_3(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path_factory.mktemp("three"), 3) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def nodes_4(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path_factory.mktemp("four"), 4) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def three(nodes_3: Cluster) -> Cluster:
    """Three nodes and a broker, all well."""
    await nodes_3.heal()
    return nodes_3


@pytest_asyncio.fixture(loop_scope="session")
async def fresh(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes and a broker for one test, which may ruin the disks of a node for good."""
    async with cluster(tmp_path, 3) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def four(nodes_4: Cluster) -> Cluster:
    """The same with a node to spare."""
    await nodes_4.heal()
    return nodes_4
