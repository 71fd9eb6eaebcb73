"""An embedded metadata store for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock


@pytest.fixture
async def store() -> AsyncIterator[MetadataStore]:
    opened = await EmbeddedStore.open(RealClock())
    yield opened
    await opened.close()
