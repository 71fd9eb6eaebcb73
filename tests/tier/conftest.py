"""A bench for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.emulators import seaweedfs as seaweedfs
from tests.support.fixtures import shared_sulina_process as shared_sulina_process
from tests.tier.world import TierBench, make_world


@pytest.fixture
async def world() -> AsyncIterator[TierBench]:
    made = await make_world()
    yield made
    await made.close()
