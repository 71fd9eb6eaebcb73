"""Fixtures of the metadata tests: ``harness`` goes through every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.store import MetadataStore
from tests.metadata.harness import HARNESSES, Harness, on_etcd
from tests.support.etcd import running_etcd


@pytest.fixture(scope="session")
def shared_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    """One etcd for all tests of a run: each has its own root, and leaves it up."""
    with running_etcd(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@pytest.fixture(params=[*HARNESSES, "etcd"])
def open_harness(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Harness]]:
    if request.param == "etcd":
        servers: EtcdServers = request.getfixturevalue("shared_etcd")
        return lambda: on_etcd(servers)
    return lambda: HARNESSES[request.param](tmp_path / "metadata")


@pytest.fixture
async def harness(
    open_harness: Callable[[], AbstractAsyncContextManager[Harness]],
) -> AsyncIterator[Harness]:
    async with open_harness() as harness:
        yield harness


@pytest.fixture
def store(harness: Harness) -> MetadataStore:
    return harness.store
