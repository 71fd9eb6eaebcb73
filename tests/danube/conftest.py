"""The stock client, and brokers for it. One client process and one event loop serve all tests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.danube.brokers import OneBroker, one_broker
from tests.danube.stock import Stock, StockClient, stock_python
from tests.support.fixtures import share_loop

_topics = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def stock_process() -> AsyncIterator[Stock]:
    """The process that the stock client runs in."""
    python = await asyncio.to_thread(stock_python)
    async with Stock(python) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def stock(stock_process: Stock) -> AsyncIterator[Stock]:
    """The stock client, unmodified."""
    yield stock_process
    await stock_process.do("close_all")


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OneBroker]:
    """A broker that all tests share."""
    async with one_broker(tmp_path_factory.mktemp("danube")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client(stock: Stock, broker: OneBroker) -> StockClient:
    """A stock client of the shared broker."""
    return await stock.client(broker.url)


@pytest.fixture
def topic() -> str:
    """A topic of the test's own."""
    return f"/default/topic-{next(_topics)}"
