"""One broker that asks for tokens for all tests of this folder; a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from broker_containers.broker.settings import BrokerSettings
from tests.auth.broker import Guarded, guarded_broker
from tests.support.fixtures import share_loop

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    # Tests apply retention and quotas themselves: a round in the middle of one would disturb it.
    settings = BrokerSettings(retention_seconds=3600.0, grace_seconds=3600.0)
    async with guarded_broker(tmp_path_factory.mktemp("quotas"), settings=settings) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(guarded: Guarded) -> str:
    """A namespace of the test's own."""
    name = f"tenant-{next(_numbers)}"
    await guarded.root.admin.namespaces.create(name)
    return name
