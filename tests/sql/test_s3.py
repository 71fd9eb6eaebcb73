"""The lake may be in S3, read with the credentials that AWS's tools find."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import boto3
import pytest

from localstack.emulators.server import EmulatorServer
from sulina.errors import NotFound
from sulina.live.connection import BlockingConnection
from sulina.sql.session import SqlSession
from sulina.tables.objects import Lake, LakePlace
from tests.broker.actions import numbered
from tests.broker.cluster import Cluster
from tests.sql.conftest import Place, rows_of
from tests.support.emulators import moto as moto


async def test_a_query_reads_a_lake_in_s3(
    moto: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in moto.variables.items():
        monkeypatch.setenv(variable, value)
    await asyncio.to_thread(boto3.client("s3").create_bucket, Bucket="sql")
    cluster = Cluster(tmp_path / "data", tier=f"s3://sql/lake?endpoint={moto.url}")
    async with cluster, cluster.client() as client:
        place = Place(cluster, client, tmp_path)
        await place.publish("/default/orders", *numbered(30))
        await place.offload("/default/orders")
        await place.publish("/default/orders", *numbered(3))

        def count(url: str) -> tuple[list[dict[str, Any]], int]:
            lake = Lake(LakePlace.parse(url))
            with (
                BlockingConnection(cluster.client()) as connection,
                SqlSession(connection, lake) as session,
            ):
                query = 'SELECT count(*) AS n, max("offset") AS last FROM orders WHERE key IS NULL'
                rows = rows_of(session, query)
                (dataset,) = session.topics.values()
                return rows, len(dataset.opened)

        assert await asyncio.to_thread(count, "s3://sql/lake") == ([{"n": 33, "last": 32}], 1)
        with pytest.raises(NotFound, match="no-such-bucket does not exist"):
            await asyncio.to_thread(count, "s3://no-such-bucket")
