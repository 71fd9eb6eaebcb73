"""Stores that only Sulina reads, in Spark: Redis, and TiKV where there is one."""

from __future__ import annotations

import random
import uuid

import pytest
from pyspark.sql import SparkSession

import emr_jobs
from emr_jobs.jobs.compacted import CompactedTable
from emr_jobs.source.options import StoreLocation
from localstack.emulators.server import EmulatorServer
from sulina.errors import NotFound, Refused, Unavailable
from sulina.objects.opening import open_store
from sulina.runtime.real_clock import RealClock
from sulina.tables.objects import LakePlace
from tests.objects.chunks import chunks_of
from tests.objects.conftest import tikv_members
from tests.spark.lake_folder import LakeFolder
from tests.support.emulators import redis as redis

ORDERS = "/default/orders"


@pytest.fixture(params=["redis", "tikv"])
async def url(request: pytest.FixtureRequest, lake: LakeFolder) -> str:
    """A store with three ledgers."""
    if request.param == "tikv":
        found = f"tikv://{tikv_members()}/spark-{uuid.uuid4()}"
    else:
        server: EmulatorServer = request.getfixturevalue("redis")
        found = f"redis://127.0.0.1:{server.port}/0/spark-{uuid.uuid4()}"
    for _ in range(3):
        lake.add(ORDERS, 40)
    async with open_store(found, RealClock(), random.Random(1)) as store:
        for path in lake.objects():
            key = path.relative_to(lake.root).as_posix()
            await store.put(key, chunks_of(path.read_bytes()))
    return found


def test_spark_reads_what_was_tiered_there(url: str, spark: SparkSession) -> None:
    rows = spark.read.format("sulina").options(path=url, topic=ORDERS, startOffset="30").load()

    assert [row["offset"] for row in rows.select("offset").sort("offset").collect()] == list(
        range(30, 120)
    )
    assert emr_jobs.count(path=url, topic=ORDERS) == 120


def test_what_is_not_there_and_what_spark_cannot_open_there_is_told(
    url: str, spark: SparkSession
) -> None:
    with pytest.raises(NotFound, match="/default/none"):
        emr_jobs.count(path=url, topic="/default/none")
    with pytest.raises(Refused, match=r"own reader cannot open .*: use spark.read.format"):
        emr_jobs.native(spark, path=url, topic=ORDERS)
    with pytest.raises(Refused, match="a table cannot be written to"):
        CompactedTable(StoreLocation(url))
    with pytest.raises(Refused, match="cannot be read as tables or with SQL: read them in Spark"):
        LakePlace.parse(url)


def test_a_password_is_not_in_the_error(unused_tcp_port: int) -> None:
    url = f"redis://user:secret@127.0.0.1:{unused_tcp_port}/0/lake"
    with pytest.raises(Unavailable) as failed:
        emr_jobs.count(path=url, topic=ORDERS)
    assert "secret" not in str(failed.value)
