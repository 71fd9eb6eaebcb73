"""A registry over every kind of metadata store: embedded, and a real etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from broker_containers.schemas.registry import SchemaRegistry, open_registry
from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.keys import namespaces
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock
from tests.metadata.harness import Harness, in_memory, on_etcd
from tests.support.etcd import running_etcd


@pytest.fixture(scope="session")
def schema_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@pytest.fixture(params=["embedded", "etcd"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Harness]:
    if request.param == "etcd":
        return on_etcd(request.getfixturevalue("schema_etcd"))
    return in_memory(tmp_path)


@pytest.fixture
async def any_store(
    opening: AbstractAsyncContextManager[Harness],
) -> AsyncIterator[MetadataStore]:
    """For what must hold on every store."""
    async with opening as harness:
        await namespaces.create_first(harness.store)
        yield harness.store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    """For what has nothing to do with the kind of store."""
    async with in_memory(tmp_path) as harness:
        await namespaces.create_first(harness.store)
        yield harness.store


@pytest.fixture
def registry(store: MetadataStore) -> SchemaRegistry:
    return open_registry(store, RealClock())
