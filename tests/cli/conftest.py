"""One server for the tests of a run, the command line, and a topic of its own for each test."""

from __future__ import annotations

import re

import pytest

from tests.cli.direct import Direct
from tests.cli.runner import Sulina
from tests.support.fixtures import shared_sulina_process as shared_sulina_process
from tests.support.server import SulinaProcess


@pytest.fixture
def sulina(shared_sulina_process: SulinaProcess) -> Sulina:
    return Sulina(shared_sulina_process.url)


@pytest.fixture
def direct(shared_sulina_process: SulinaProcess) -> Direct:
    return Direct(shared_sulina_process.url)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return "/default/" + re.sub(r"\W", "-", request.node.name)
