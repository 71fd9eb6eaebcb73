"""Spark's live reads divide a topic by the same rules. Planning and reading need no Spark."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from emr_jobs.source.batch import BatchReader
from emr_jobs.source.datasource import SulinaDataSource
from sulina.errors import NotFound, Refused
from tests.broker.actions import numbered, publish
from tests.sql.conftest import Place


def reader_of(place: Place, topic: str, **options: Any) -> BatchReader:
    """As Spark makes it."""
    given = {"path": str(place.lake), "url": place.cluster.url, "live": "true", "topic": topic}
    source = SulinaDataSource({**given, **{name: str(each) for name, each in options.items()}})
    return source.reader(source.schema())


async def read(reader: BatchReader, tasks: list[InputPartition] | None = None) -> Counter[Any]:
    """How often each record is read, in threads, as the broker runs in this one."""

    def work() -> Counter[Any]:
        found: Counter[Any] = Counter()
        for task in reader.partitions() if tasks is None else tasks:
            schemas = set()
            for batch in reader.read(task):
                schemas.add(str(batch.schema))
                assert len(schemas) == 1, "Spark takes one schema from a task"
                columns = batch.select(["partition", "offset", "payload"]).to_pydict()
                found.update(zip(*columns.values(), strict=True))
        return found

    return await asyncio.to_thread(work)


async def test_a_live_read_has_objects_and_the_tail_each_record_once(
    place: Place, name: str
) -> None:
    topic = f"/default/{name}"
    await place.client.admin.topics.create(topic, partitions=2)
    for key in (None, "only objects after the first have a key"):
        await publish(place.client, topic, numbered(100), batch_records=10)
        async with place.client.producer(topic) as producer:
            await (await producer.send(b"one more", key=key))
        await place.offload(topic)
    await publish(place.client, topic, numbered(60), batch_records=10)
    found = await read(reader_of(place, topic))
    assert sum(found.values()) == len(found) == 262
    assert Counter(payload for _, _, payload in found)[b"7"] == 3
    some = await read(reader_of(place, topic, startOffset=90, endOffset=110))
    assert {offset for _, offset, _ in some} == set(range(90, 110))


async def test_what_is_tiered_or_replaced_after_planning_changes_nothing(
    place: Place, name: str
) -> None:
    topic = f"/default/{name}"
    await place.publish(topic, *numbered(50))
    await place.offload(topic)
    await place.publish(topic, *numbered(20))
    reader = reader_of(place, topic)
    tasks = list(await asyncio.to_thread(reader.partitions))
    assert len(tasks) == 2
    await place.publish(topic, *numbered(20))
    await place.offload(topic)
    for path in place.lake.glob(f"ledgers/*/topic={name}/*/*.parquet"):
        path.unlink()
    found = await read(reader, tasks)
    assert sorted(offset for _, offset, _ in found.elements()) == list(range(70))


async def test_a_live_read_names_what_is_missing(place: Place, name: str) -> None:
    with pytest.raises(NotFound, match="there is no topic"):
        await read(reader_of(place, f"/default/{name}"))
    with pytest.raises(Refused, match="takes no pattern"):
        await read(reader_of(place, "/default/*"))
    with pytest.raises(Refused, match="needs the option url"):
        reader_of(place, "/default/x", url="")
