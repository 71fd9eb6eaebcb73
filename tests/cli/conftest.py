"""One server for all tests, the command line, and one topic per test."""

from __future__ import annotations

import re

import pytest

from tests.cli.runner import BlockingClient, SulinaCommand
from tests.support.fixtures import shared_sulina_process as shared_sulina_process
from tests.support.server import SulinaProcess


@pytest.fixture
def sulina(shared_sulina_process: SulinaProcess) -> SulinaCommand:
    return SulinaCommand(shared_sulina_process.url)


@pytest.fixture
def direct(shared_sulina_process: SulinaProcess) -> BlockingClient:
    return BlockingClient(shared_sulina_process.url)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return "/default/" + re.sub(r"\W", "-", request.node.name)
