"""A cluster of three brokers for the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sulina import Client
from tests.owners.brokers import Brokers


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    async with asyncio.timeout(90), Brokers() as cluster:
        await cluster.start("one", "two", "three")
        yield cluster


@pytest.fixture
async def client(brokers: Brokers) -> AsyncIterator[Client]:
    """A client that was given one address only."""
    async with brokers.client("one") as connected:
        yield connected
