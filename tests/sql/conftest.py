"""A broker with a lake, in this process, for all tests; a topic of each test's own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
import pytest_asyncio

from broker_containers.broker.settings import BrokerSettings
from sulina import Client
from sulina.live.connection import BlockingConnection
from sulina.sql.session import SqlSession
from sulina.tables.objects import Lake, LakePlace
from tests.broker.actions import eventually
from tests.broker.cluster import Cluster
from tests.support.fixtures import share_loop

_numbers = itertools.count(1)
_T = TypeVar("_T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Place:
    """The broker, its lake, and queries on both."""

    cluster: Cluster
    client: Client
    lake: Path

    async def offload(self, topic: str) -> None:
        """Make objects of all that the topic has."""
        until = (await self.client.admin.ledgers.offload(topic)).until

        async def tiered() -> bool:
            rows = await self.client.admin.ledgers.list(topic)
            ends = {row.topic: (row.last_offset or 0) + 1 for row in rows if row.key is not None}
            return all(ends.get(part, 0) >= end for part, end in until.items())

        await eventually(tiered)

    async def publish(self, topic: str, *payloads: bytes) -> None:
        async with self.client.producer(topic) as producer:
            await producer.send_many(payloads)

    async def query(self, *queries: str, lake: bool = True) -> list[list[dict[str, Any]]]:
        """The rows of each query, of one session."""
        return await self.session(lambda each: [rows_of(each, query) for query in queries], lake)

    async def session(self, work: Callable[[SqlSession], _T], lake: bool = True) -> _T:
        """What ``work`` does in a thread, as the broker runs in this one."""

        def run() -> _T:
            place = Lake(LakePlace.parse(str(self.lake))) if lake else None
            with (
                BlockingConnection(self.cluster.client()) as connection,
                SqlSession(connection, place) as session,
            ):
                return work(session)

        return await asyncio.to_thread(run)


def rows_of(session: SqlSession, query: str) -> list[dict[str, Any]]:
    found = pa.Table.from_batches(list(session.run(query)))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("sql")
    settings = BrokerSettings(retention_seconds=0.05)
    cluster = Cluster(folder / "data", settings, tier=(folder / "lake").as_uri())
    async with cluster, cluster.client() as client:
        yield Place(cluster, client, folder / "lake")


@pytest.fixture
def name() -> str:
    """Of a topic that no other test uses."""
    return f"topic_{next(_numbers)}"
