"""The caller's rights count: what is not in objects is read through the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sulina import Refused
from sulina.live.connection import BlockingConnection
from sulina.sql.session import SqlSession
from tests.auth.broker import Guarded, guarded_broker
from tests.broker.actions import numbered, publish
from tests.sql.conftest import rows_of


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded_broker(tmp_path) as running:
        yield running


async def test_a_query_needs_the_right_to_consume(guarded: Guarded) -> None:
    topic = "/default/orders"
    await publish(guarded.root, topic, numbered(3))
    reader = await guarded.token("reader", f"consume:{topic}")
    writer = await guarded.token("writer", f"produce:{topic}")

    def count(token: str) -> list[dict[str, Any]]:
        with (
            BlockingConnection(guarded.connect(token)) as connection,
            SqlSession(connection) as session,
        ):
            return rows_of(session, "SELECT count(*) AS n FROM orders")

    assert await asyncio.to_thread(count, reader) == [{"n": 3}]
    with pytest.raises(Refused, match="consume"):
        await asyncio.to_thread(count, writer)
