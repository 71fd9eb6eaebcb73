"""Copies of topics: exactly once, with everything that belongs to a record, from any place."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sulina import Batch, Client, Message, NotFound, Refused, Start
from sulina.copies.copying import PartitionCopy, copy_partitions, producer_name
from sulina.copies.objects import HistoryObject, chain, open_history
from sulina.copies.sources import CopySource, TopicSource
from sulina.lake.layout import object_key
from sulina.names import TopicName
from sulina.objects.folder import FolderStore
from sulina.runtime.real_random import real_random
from tests.broker.actions import eventually, numbered, publish, read_messages
from tests.broker.cluster import Cluster
from tests.broker.conftest import client as client
from tests.broker.conftest import cluster as cluster
from tests.broker.conftest import make_cluster as make_cluster

SOURCE, TARGET = "/default/source", "/default/target"
SECOND_US = 1_000_000


async def keep(schema_id: int, version: int) -> bool:
    return True


async def drop(schema_id: int, version: int) -> bool:
    return False


async def copy(
    client: Client,
    target: Client | None = None,
    *,
    start: Start | None = None,
    until: Start | None = None,
    wrap: Callable[[CopySource], Any] = lambda source: source,
    schema: Callable[..., Any] = keep,
) -> list[PartitionCopy]:
    info = await client.topic(SOURCE)
    sources = [
        wrap(await TopicSource.open(client, name, start or Start.earliest(), until))
        for name, _ in info.parts
    ]
    return await copy_partitions(
        sources, target or client, TARGET, keeps_schema=schema, progress=lambda done, total: None
    )


def seen(messages: list[Message]) -> list[tuple[object, ...]]:
    """What a copy keeps of messages."""
    return [
        (each.payload, each.key, each.attributes, each.publish_time_us, each.is_tombstone)
        for each in messages
    ]


@dataclass
class Breaking:
    """A source whose connection breaks after some batches."""

    inner: CopySource
    batches: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def read(self, offset: int) -> AsyncIterator[Batch]:
        async for batch in self.inner.read(offset):
            if not self.batches:
                raise Refused("broken by the test")
            self.batches -= 1
            yield batch


async def test_a_copy_keeps_everything_and_runs_again_for_what_is_new(client: Client) -> None:
    async with client.producer(SOURCE, schema_id=7, schema_version=2) as producer:
        for number in range(5):
            await producer.send(
                b"%d" % number,
                key=f"k{number}",
                attributes={"n": str(number)},
                publish_time_us=number * SECOND_US,
            )
        await producer.send(None, key="k1")
    await publish(client, SOURCE, [b"without key", b""])
    [done] = await copy(client)
    copied = await read_messages(client, TARGET)
    assert seen(copied) == seen(await read_messages(client, SOURCE))
    assert [(each.sequence, each.producer) for each in copied] == [
        (offset, producer_name(SOURCE)) for offset in range(8)
    ]
    assert copied[0].schema_id == 7 and copied[0].schema_version == 2
    assert done == PartitionCopy(SOURCE, TARGET, 0, 8, 8)
    assert (await copy(client))[0].records == 0
    await publish(client, SOURCE, [b"later"])
    assert (await copy(client))[0].records == 1
    assert len(await read_messages(client, TARGET)) == 9


async def test_an_interrupted_copy_continues_and_stores_nothing_twice(client: Client) -> None:
    await publish(client, SOURCE, numbered(100), batch_records=7)
    for batches in (3, 0, 5):
        with pytest.raises(Refused, match="broken"):
            await copy(client, wrap=partial(Breaking, batches=batches))
    await copy(client)
    assert [each.payload for each in await read_messages(client, TARGET)] == numbered(100)


async def test_a_range_is_copied_with_the_offsets_of_the_source(client: Client) -> None:
    await publish(client, SOURCE, numbered(30), batch_records=10)
    [done] = await copy(client, start=Start.offset(5), until=Start.offset(17))
    assert (done.first_offset, done.end_offset, done.records) == (5, 17, 12)
    copied = await read_messages(client, TARGET)
    assert [each.sequence for each in copied] == list(range(5, 17))
    assert [each.payload for each in copied] == numbered(12, 5)


async def test_partitions_stay_partitions_and_another_number_is_refused(client: Client) -> None:
    await client.admin.topics.create(SOURCE, partitions=3)
    await publish(client, SOURCE, numbered(30), keys=[f"k{n}" for n in range(30)])
    await copy(client)
    for number in range(3):
        there, here = (f"{topic}-part-{number}" for topic in (TARGET, SOURCE))
        assert seen(await read_messages(client, there)) == seen(await read_messages(client, here))
    await client.admin.topics.delete(TARGET)
    await client.admin.topics.create(TARGET, partitions=2)
    with pytest.raises(Refused, match="2 partitions and the source has 3"):
        await copy(client)


async def test_a_copy_goes_to_another_cluster_without_schemas_that_it_lacks(
    client: Client, tmp_path: Path
) -> None:
    await publish(client, SOURCE, numbered(10), schema_id=3, schema_version=1)
    async with Cluster(tmp_path / "other") as other, other.client() as target:
        await copy(client, target, schema=drop)
        copied = await read_messages(target, TARGET)
        assert [each.payload for each in copied] == numbered(10)
        assert copied[0].schema_id == copied[0].schema_version == 0


async def test_a_topic_is_restored_as_of_a_time_when_only_its_objects_are_left(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    async with (
        Cluster(tmp_path / "lost", tier=lake.as_uri()) as lost,
        lost.client() as client,
    ):
        for part in range(3):
            async with client.producer(SOURCE) as producer:
                for number in range(10 * part, 10 * part + 10):
                    time = number * SECOND_US
                    await producer.send(b"%d" % number, key=str(number), publish_time_us=time)
            await client.admin.ledgers.offload(SOURCE)

            async def tiered() -> bool:
                return all(row.object_bytes for row in await client.admin.ledgers.list(SOURCE))

            await eventually(tiered)
    shutil.rmtree(tmp_path / "lost")
    store = FolderStore(lake, real_random())
    async with Cluster(tmp_path / "new") as new, new.client() as client:
        with pytest.raises(NotFound, match="no objects"):
            await open_history(store, TopicName.parse(TARGET), None, allow_gaps=False)
        for at, count in ((15 * SECOND_US, 15), (None, 15)):  # the second adds what is missing
            sources = await open_history(store, TopicName.parse(SOURCE), at, allow_gaps=False)
            [done] = await copy_partitions(
                sources, client, TARGET, keeps_schema=keep, progress=lambda done, total: None
            )
            assert done.records == count
        restored = await read_messages(client, TARGET)
        assert [each.payload for each in restored] == numbered(30)
        assert [each.publish_time_us for each in restored[:2]] == [0, SECOND_US]


def test_each_record_comes_from_the_highest_generation_and_the_widest_object() -> None:
    topic = TopicName.parse(SOURCE)

    def held(first: int, last: int, ledger: int, generation: int = 0) -> HistoryObject:
        summary = SimpleNamespace(first_offset=first, last_offset=last, ledger=ledger)
        key = object_key(topic, first, ledger, generation, last)
        return HistoryObject(key, cast(Any, SimpleNamespace(summary=summary)))

    merged, erased = held(0, 9, 2, 1), held(10, 19, 7, 2)
    whole = [held(0, 4, 1), held(5, 9, 2), merged, held(10, 19, 7), erased]
    whole += [held(10, 19, 7, 1), held(30, 34, 8), held(30, 39, 9)]
    assert chain(topic, whole, allow_gaps=True) == [merged, erased, whole[-1]]
    with pytest.raises(Refused, match="from offset 20 to 29"):
        chain(topic, whole, allow_gaps=False)
