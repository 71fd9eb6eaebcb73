"""``EtcdStore`` with much going on: many writers, long listings, few connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sulina.errors import Closed
from sulina.metadata.etcd import EtcdStore
from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.store import Put
from sulina.runtime.real_clock import RealClock
from tests.metadata.chronicle import Chronicle
from tests.metadata.harness import take

KEYS = 700  # several pages


@pytest.fixture
async def store(
    shared_etcd: EtcdServers, request: pytest.FixtureRequest
) -> AsyncIterator[EtcdStore]:
    settings = replace(shared_etcd.settings, root=f"/{request.node.name}", max_in_flight=4)
    store = await EtcdStore.open(settings, RealClock())
    yield store
    await store.close()


async def fill(store: EtcdStore) -> list[str]:
    keys = [f"/many/{number:04}" for number in range(KEYS)]
    for start in range(0, KEYS, 100):
        await store.txn((), [Put(key, b"0") for key in keys[start : start + 100]])
    return keys


async def test_a_watch_under_8_writers_loses_nothing_and_repeats_nothing(store: EtcdStore) -> None:
    async with Chronicle(store).running(8, 0) as chronicle:
        await chronicle.told(800)


async def test_a_listing_of_many_pages_is_of_one_revision(store: EtcdStore) -> None:
    keys = await fill(store)
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            value = b"%d" % number
            result = await store.txn((), [Put(keys[0], value), Put(keys[-1], value)])
            if number % 10 == 0:
                await store.compact(result.revision)

    writing = asyncio.create_task(write())
    for _ in range(10):
        listing = await store.range("/many/")
        assert [item.key for item in listing.items] == keys
        assert listing.items[0].value == listing.items[-1].value
        assert not listing.more
    stop.set()
    await writing


async def test_a_limit_counts_over_pages(store: EtcdStore) -> None:
    keys = await fill(store)
    listing = await store.range("/many/", limit=500)
    assert [item.key for item in listing.items] == keys[:500]
    assert listing.more
    rest = await store.range("/many/", after=keys[499], limit=200)
    assert [item.key for item in rest.items] == keys[500:]
    assert not rest.more


async def test_large_values_are_listed_and_watched_whole(store: EtcdStore) -> None:
    value = bytes(range(256)) * 4000
    first = await store.put("/large/0", value)
    for number in range(1, 6):
        await store.put(f"/large/{number}", value)
    assert all(item.value == value for item in (await store.range("/large/")).items)
    events = await take(store.watch("/large/", from_revision=first), 6)
    assert [event.key for event in events] == [f"/large/{number}" for number in range(6)]
    assert all(event.value == value for event in events)


async def test_a_watch_nobody_reads_is_told_everything_later(store: EtcdStore) -> None:
    first = await store.put("/slow", b"0")
    watch = store.watch("/slow", from_revision=first)
    await take(watch, 1)
    for start in range(0, 3000, 100):
        await store.txn((), [Put(f"/slow/{start + number}", b"") for number in range(100)])
    events = await take(watch, 3000)
    assert len({event.key for event in events}) == 3000


async def test_more_calls_than_may_be_in_flight_take_turns(store: EtcdStore) -> None:
    await asyncio.gather(*(store.put(f"/turns/{number}", b"") for number in range(50)))
    assert len((await store.range("/turns/")).items) == 50


async def test_closing_lets_what_is_under_way_end(store: EtcdStore) -> None:
    writes = [asyncio.create_task(store.put(f"/end/{number}", b"")) for number in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert all(isinstance(revision, int) for revision in await asyncio.gather(*writes))
    with pytest.raises(Closed):
        await store.put("/end", b"")
