"""An embedded metadata store for each test, and waiting with a bound that suits slow machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock


@pytest.fixture
async def store() -> AsyncIterator[MetadataStore]:
    opened = await EmbeddedStore.open(RealClock())
    yield opened
    await opened.close()


SECONDS = 60.0


async def until(true: Callable[[], object]) -> None:
    """Look again and again; fails the test if it does not become true."""
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.01)
