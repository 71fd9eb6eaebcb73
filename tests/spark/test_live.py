"""Spark itself runs a live read: tasks connect to the brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyspark.sql import SparkSession

import sulina
from tests.support.server import SulinaProcess


def test_spark_reads_records_that_are_not_tiered(
    spark: SparkSession, shared_sulina_process: SulinaProcess, tmp_path: Path
) -> None:
    topic, url = "/default/spark-live", shared_sulina_process.url

    async def publish() -> None:
        async with sulina.connect(url) as client, client.producer(topic) as producer:
            await producer.send_many([b"%d" % n for n in range(500)], keys=["a", "b"] * 250)

    asyncio.run(publish())
    options = {"path": str(tmp_path), "topic": topic, "live": "true", "url": url}
    rows = spark.read.format("sulina").options(**options).load()
    assert [tuple(row) for row in rows.groupBy("key").count().orderBy("key").collect()] == [
        (bytearray(b"a"), 250),
        (bytearray(b"b"), 250),
    ]
    assert rows.where("offset >= 490").count() == 10
