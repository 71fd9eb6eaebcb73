"""One server for the tests of a run, an admin client of it, and names of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

import sulina
from sulina import Client
from tests.danube_admin.client import AdminClient, admin_client
from tests.support.fixtures import shared_sulina_process as shared_sulina_process
from tests.support.server import SulinaProcess

_NUMBERS = itertools.count()


@pytest.fixture
async def admin(shared_sulina_process: SulinaProcess) -> AsyncIterator[AdminClient]:
    async with admin_client(shared_sulina_process.admin_port) as client:
        yield client


@pytest.fixture
async def client(shared_sulina_process: SulinaProcess) -> AsyncIterator[Client]:
    async with sulina.connect(shared_sulina_process.url) as connected:
        yield connected


@pytest.fixture
def unused() -> str:
    """A name that no other test uses."""
    return f"unused-{next(_NUMBERS)}"


@pytest.fixture
async def namespace(admin: AdminClient, unused: str) -> str:
    """A new namespace."""
    await admin("NamespaceAdmin/CreateNamespace", name=unused)
    return unused


@pytest.fixture
def topic(namespace: str) -> str:
    """A name for a topic in a namespace of the test's own."""
    return f"/{namespace}/orders"
