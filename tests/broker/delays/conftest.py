"""A cluster whose wall clock the tests of this folder move, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sulina import Client
from tests.broker.moved_clock import MovedCluster, running


@pytest.fixture
async def cluster_and_client() -> AsyncIterator[tuple[MovedCluster, Client]]:
    async with running() as both:
        yield both


@pytest.fixture
def cluster(cluster_and_client: tuple[MovedCluster, Client]) -> MovedCluster:
    return cluster_and_client[0]


@pytest.fixture
def client(cluster_and_client: tuple[MovedCluster, Client]) -> Client:
    return cluster_and_client[1]
