"""One server for the tests of a run, an HTTP client of it, and a topic of its own for each test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from tests.http.client import Http, http_client
from tests.support.fixtures import shared_sulina_process as shared_sulina_process
from tests.support.server import SulinaProcess


@pytest.fixture
async def http(shared_sulina_process: SulinaProcess) -> AsyncIterator[Http]:
    async with http_client(shared_sulina_process.http_url) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic in the namespace default that no other test uses."""
    return re.sub(r"\W", "-", request.node.name)
