"""One broker that asks for tokens, with all its doors, for all tests; names of each test's own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from broker_containers.security import throttle
from tests.auth.broker import Guarded, guarded_broker
from tests.support.fixtures import share_loop

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with guarded_broker(tmp_path_factory.mktemp("auth")) as running:
        yield running


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"name-{next(_numbers)}"


@pytest.fixture
def topic(name: str) -> str:
    return f"/default/{name}"


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each refusal of an invalid token is to be held back; here none waits that long."""
    seconds: list[float] = []
    wanted = throttle._wait_seconds

    def quickly(count: int) -> float:
        seconds.append(wanted(count))
        return min(seconds[-1], 0.001)

    monkeypatch.setattr(throttle, "_wait_seconds", quickly)
    return seconds
