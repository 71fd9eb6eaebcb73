"""Rows become records of a topic, each once, also when a task or a batch runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import sulina
from emr_jobs.sink.options import WriteOptions, parse_write_options
from emr_jobs.sink.publisher import publish
from emr_jobs.sink.rows import RecordChunk, check_columns
from sulina.errors import Refused
from tests.spark.lake_folder import LakeFolder
from tests.support.server import SulinaProcess


def stored(server: SulinaProcess, *topics: str) -> list[tuple[bytes, bytes | None]]:
    """Payload and key of all records, topic by topic."""

    async def read() -> list[tuple[bytes, bytes | None]]:
        found: list[tuple[bytes, bytes | None]] = []
        async with sulina.connect(server.url) as client:
            for topic in topics:
                start = 0
                while True:
                    result = await client.read(topic, sulina.Start.offset(start))
                    for batch in result:
                        keys = batch.keys or [None] * len(batch.payloads)
                        found += zip(batch.payloads, keys, strict=True)
                    start = result.next_offset
                    if result.at_end:
                        break
        return found

    return asyncio.run(read())


def create(server: SulinaProcess, topic: str, partitions: int) -> None:
    async def call() -> None:
        async with sulina.connect(server.url) as client:
            await client.admin("topic.create", {"topic": topic, "partitions": partitions})

    asyncio.run(call())


def records(count: int, *, keyed: bool = False, fail_at: int = -1) -> Iterator[RecordChunk]:
    """Chunks of rows as a task has them; it may break in between."""
    for start in range(0, count, 10):
        if start == fail_at:
            raise RuntimeError("the task is lost")
        numbers = range(start, min(start + 10, count))
        keys: list[bytes | None] | None = [b"k%d" % (n % 5) for n in numbers] if keyed else None
        yield RecordChunk([b"%d" % n for n in numbers], keys, None)


def payloads(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_a_task_that_runs_again_adds_only_what_is_missing(
    shared_sulina_process: SulinaProcess,
) -> None:
    topic = "/default/spark-again"
    options = WriteOptions(shared_sulina_process.url, topic, "")
    with pytest.raises(RuntimeError):
        publish(options, "job/0", records(100, fail_at=60))
    before = len(stored(shared_sulina_process, topic))
    assert publish(options, "job/0", records(100)).skipped == before
    assert publish(options, "job/0", records(100)).skipped == 100
    assert [payload for payload, _ in stored(shared_sulina_process, topic)] == payloads(100)


def test_each_record_has_the_same_partition_each_time(
    shared_sulina_process: SulinaProcess,
) -> None:
    topic = "/default/spark-parts"
    create(shared_sulina_process, topic, 3)
    options = WriteOptions(shared_sulina_process.url, topic, "")
    with pytest.raises(RuntimeError):
        publish(options, "job/0", records(100, keyed=True, fail_at=50))
    publish(options, "job/0", records(100, keyed=True))
    found = stored(shared_sulina_process, *(f"{topic}-part-{n}" for n in range(3)))
    assert sorted(payload for payload, _ in found) == sorted(payloads(100))


def test_a_batch_of_a_stream_that_is_run_again_is_not_published_again(
    shared_sulina_process: SulinaProcess,
) -> None:
    topic = "/default/spark-batches"
    options = WriteOptions(shared_sulina_process.url, topic, "")
    publish(options, "query/0", records(20), batch=0)
    with pytest.raises(RuntimeError):
        publish(options, "query/0", records(40, fail_at=20), batch=1)
    publish(options, "query/0", records(40), batch=1)
    publish(options, "query/0", records(40), batch=1)
    publish(options, "query/0", records(5), batch=2)
    assert publish(options, "query/0", records(40), batch=1).skipped == 40
    found = [payload for payload, _ in stored(shared_sulina_process, topic)]
    assert found == [*payloads(20), *payloads(40), *payloads(5)]


def test_rows_that_differ_from_run_to_run_are_told(shared_sulina_process: SulinaProcess) -> None:
    options = WriteOptions(shared_sulina_process.url, "/default/spark-differs", "")
    publish(options, "job/0", records(30))
    with pytest.raises(Refused, match="its rows differ between runs"):
        publish(options, "job/0", records(20))


def test_a_data_frame_is_published_once_however_often_it_is_written(
    spark: SparkSession, shared_sulina_process: SulinaProcess
) -> None:
    topic = "/default/spark-write"
    frame = spark.range(0, 40, 1, 2).selectExpr(
        "cast(id AS string) AS payload",
        "cast(id % 3 AS string) AS key",
        "map('n', cast(id AS string)) AS attributes",
    )
    for _ in range(2):
        writer = frame.write.format("sulina").mode("append")
        writer.options(url=shared_sulina_process.url, topic=topic, producer="nightly").save()
    found = stored(shared_sulina_process, topic)
    assert sorted(found) == sorted((b"%d" % n, b"%d" % (n % 3)) for n in range(40))


def test_a_stream_goes_from_objects_to_a_topic(
    spark: SparkSession, lake: LakeFolder, shared_sulina_process: SulinaProcess, tmp_path: Path
) -> None:
    topic = "/default/spark-stream"

    def run() -> None:
        source = spark.readStream.format("sulina").options(path=str(lake.root), topic="/default/in")
        rows = source.load().selectExpr("cast(offset AS string) AS payload")
        query = (
            rows.writeStream.format("sulina")
            .options(url=shared_sulina_process.url, topic=topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    lake.add("/default/in", 30)
    run()
    assert [payload for payload, _ in stored(shared_sulina_process, topic)] == payloads(30)
    for path in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        path.unlink()  # as if the program had ended just before
    run()
    assert [payload for payload, _ in stored(shared_sulina_process, topic)] == payloads(30)


def test_what_can_not_be_published_is_told_before_anything_is() -> None:
    with pytest.raises(Refused, match="column amount cannot be published"):
        check_columns(StructType().add("payload", "string").add("amount", "integer"))
    with pytest.raises(Refused, match="no column payload"):
        check_columns(StructType().add("key", "string"))
    with pytest.raises(Refused, match="must not be of type int"):
        check_columns(StructType().add("payload", "integer"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "option url is missing"),
        ({"url": "sulina://x"}, "option topic is missing"),
        ({"url": "sulina://x", "topic": "/a/b", "colour": "red"}, "unknown option 'colour'"),
        ({"url": "sulina://x", "topic": "/a/b", "create": "maybe"}, "create must be true or false"),
    ],
)
def test_wrong_options_of_writing_are_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(Refused, match=told):
        parse_write_options(options, overwrite=False)


def test_a_topic_is_never_overwritten(spark: SparkSession) -> None:
    writer = spark.range(1).selectExpr("cast(id AS string) AS payload").write.format("sulina")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.mode("overwrite").options(url="sulina://127.0.0.1:1", topic="/a/b").save()
