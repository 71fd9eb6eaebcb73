"""A running cluster, and a client of it, for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import sulina
from broker_containers.broker.settings import BrokerSettings
from storage_grpc.journal import JournalSettings
from sulina import Client
from tests.broker.cluster import Cluster
from tests.broker.proxy import Proxy

MakeCluster = Callable[..., Awaitable[Cluster]]


@pytest.fixture
async def make_cluster(tmp_path: Path) -> AsyncIterator[MakeCluster]:
    """Starts a cluster with settings of the test's own; it is stopped when the test ends."""
    async with AsyncExitStack() as stack:

        async def make(
            settings: BrokerSettings | None = None, journal: JournalSettings | None = None
        ) -> Cluster:
            cluster = Cluster(tmp_path / "data", settings, journal)
            return await stack.enter_async_context(cluster)

        yield make


@pytest.fixture
async def cluster(make_cluster: MakeCluster) -> Cluster:
    """A cluster as ``sulina up`` starts it."""
    return await make_cluster()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client that is connected to the cluster."""
    async with cluster.client() as connected:
        yield connected


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[Proxy]:
    """A network to the cluster that the test can break."""
    async with Proxy(cluster.port) as forwarding:
        yield forwarding


@pytest.fixture
async def remote(proxy: Proxy) -> AsyncIterator[Client]:
    """A client that is connected through the proxy."""
    async with sulina.connect(proxy.url, operation_timeout=10.0) as connected:
        yield connected
