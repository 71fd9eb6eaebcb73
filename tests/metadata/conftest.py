"""Fixtures of the metadata tests: ``harness`` goes through every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sulina.metadata.store import MetadataStore
from tests.metadata.harness import HARNESSES, Harness


@pytest.fixture(params=HARNESSES)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    async with HARNESSES[request.param](tmp_path / "metadata") as harness:
        yield harness


@pytest.fixture
def store(harness: Harness) -> MetadataStore:
    return harness.store
