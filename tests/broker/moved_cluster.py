"""A broker whose wall clock the test sets, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_containers.broker.settings import BrokerSettings
from sulina import Client
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.broker.memory_cluster import MemoryCluster

HOUR = 3600


class MovedClock(RealClock):
    """A clock whose wall time is ``ahead`` seconds ahead of the real one."""

    ahead = 0.0

    def wall_us(self) -> int:
        return super().wall_us() + int(self.ahead * 1e6)


class MovedCluster(MemoryCluster):
    """A cluster with such a clock."""

    def move(self, hours: float) -> None:
        """Set the clock, and let all subscriptions look at it."""
        assert isinstance(self.clock, MovedClock)
        self.clock.ahead += hours * HOUR
        for topic in self.broker.loaded():
            for subscription in topic.subscriptions.values():
                subscription.wake()


@asynccontextmanager
async def running(
    settings: BrokerSettings | None = None,
) -> AsyncIterator[tuple[MovedCluster, Client]]:
    """Such a cluster, and a client of it."""
    cluster = MovedCluster(MemoryDisk(), settings=settings, clock=MovedClock())
    async with cluster, cluster.client() as client:
        yield cluster, client


# Import these where they are used: they take the place of the folder's own fixtures.


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
