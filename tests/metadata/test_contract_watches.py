"""The contract of every metadata store: watches, in order, nothing twice and nothing missing."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import Closed, Refused
from sulina.metadata.store import (
    Compacted,
    Delete,
    Event,
    EventKind,
    MetadataStore,
    Put,
)
from tests.metadata.harness import PATIENCE, take

PUT, DELETE = EventKind.PUT, EventKind.DELETE


async def now(store: MetadataStore) -> int:
    return (await store.range("/")).revision


async def test_a_watch_tells_what_happened_since_a_revision(store: MetadataStore) -> None:
    await store.put("/w/a", b"before")
    first = await store.put("/w/a", b"1")
    second = await store.put("/w/b", b"2")
    await store.delete("/w/a")
    assert await take(store.watch("/w/", from_revision=first), 3) == [
        Event(PUT, "/w/a", b"1", first),
        Event(PUT, "/w/b", b"2", second),
        Event(DELETE, "/w/a", b"", second + 1),
    ]


async def test_a_watch_waits_for_what_is_to_come(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 1)
    coming = asyncio.create_task(take(watch, 2))
    await asyncio.sleep(0)
    revision = await store.put("/w/a", b"1")
    await store.put("/w/a", b"2")
    assert [event.mod_revision for event in await coming] == [revision, revision + 1]


async def test_a_watch_sees_its_prefix_only(store: MetadataStore) -> None:
    start = await now(store) + 1
    for key in ("/topics/foo/a", "/topics/foobar/a", "/topics/foo", "/topics/foo/b"):
        await store.put(key, b"")
    events = await take(store.watch("/topics/foo/", from_revision=start), 2)
    assert [event.key for event in events] == ["/topics/foo/a", "/topics/foo/b"]


async def test_a_waiting_watch_is_not_woken_by_others(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 1)
    coming = asyncio.create_task(take(watch, 1))
    for number in range(10):
        await store.put(f"/other/{number}", b"")
    assert not coming.done()
    await store.put("/w/a", b"")
    [event] = await coming
    assert event.key == "/w/a"


async def test_the_changes_of_a_transaction_come_together_in_order(store: MetadataStore) -> None:
    await store.put("/w/old", b"")
    result = await store.txn((), [Put("/w/b", b""), Delete("/w/old"), Put("/w/a", b"")])
    after = await store.put("/w/c", b"")
    events = await take(store.watch("/w/", from_revision=result.revision), 4)
    assert [event.mod_revision for event in events] == [result.revision] * 3 + [after]
    assert {event.key for event in events[:3]} == {"/w/b", "/w/old", "/w/a"}


async def test_listing_then_watching_misses_nothing_and_repeats_nothing(
    store: MetadataStore,
) -> None:
    async def write(name: str) -> None:
        for number in range(20):
            await store.put(f"/w/{name}", str(number).encode())

    writers = [asyncio.create_task(write(name)) for name in "abcd"]
    await store.put("/w/e", b"")
    listing = await store.range("/w/")
    seen = {item.key: item.value for item in listing.items}
    watch = store.watch("/w/", from_revision=listing.revision + 1)
    await asyncio.gather(*writers)
    final = {item.key: item.value for item in (await store.range("/w/")).items}
    last = listing.revision
    steps = {key: [int(value or b"0")] for key, value in seen.items()}
    while seen != final:
        [event] = await take(watch, 1)
        # Equal only within one transaction, which a store may make of writes at the same time.
        assert last <= event.mod_revision <= last + 1
        last = event.mod_revision
        seen[event.key] = event.value
        steps.setdefault(event.key, [-1]).append(int(event.value or b"0"))
    for numbers in steps.values():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_a_watch_can_be_taken_up_again(store: MetadataStore) -> None:
    first = await store.put("/w/a", b"1")
    watch = store.watch("/w/", from_revision=first)
    [event] = await take(watch, 1)
    await watch.aclose()
    await store.put("/w/a", b"2")
    await store.put("/w/a", b"3")
    again = store.watch("/w/", from_revision=event.mod_revision + 1)
    assert [event.value for event in await take(again, 2)] == [b"2", b"3"]


async def test_a_watch_may_begin_in_the_future(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 3)
    coming = asyncio.create_task(take(watch, 1))
    for value in (b"1", b"2", b"3"):
        await store.put("/w/a", value)
    [event] = await coming
    assert event.value == b"3"


async def test_a_wait_that_is_given_up_loses_no_event(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 1)
    for _ in range(3):
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await store.put("/other", b"")
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    putting = asyncio.create_task(store.put("/w/a", b"1"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await putting
    await store.put("/w/a", b"2")
    expected = [b"1", b"2"] if waiting.cancelled() else [b"2"]
    assert [event.value for event in await take(watch, len(expected))] == expected


async def test_closing_a_watch_ends_its_wait(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 1)
    waiting = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    await watch.aclose()
    assert await asyncio.wait_for(waiting, PATIENCE) is None
    assert await anext(watch, None) is None


async def test_many_watches_see_the_same(store: MetadataStore) -> None:
    start = await now(store) + 1
    watches = [store.watch("/w/", from_revision=start) for _ in range(10)]
    coming = [asyncio.create_task(take(watch, 20)) for watch in watches]
    await asyncio.gather(*(store.put(f"/w/{number}", b"") for number in range(20)))
    first, *others = await asyncio.gather(*coming)
    assert sorted(event.key for event in first) == sorted(f"/w/{number}" for number in range(20))
    assert first == sorted(first, key=lambda event: event.mod_revision)
    assert all(events == first for events in others)


async def test_closing_the_store_ends_its_watches(store: MetadataStore) -> None:
    watch = store.watch("/w/", from_revision=await now(store) + 1)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(Closed):
        await asyncio.wait_for(waiting, PATIENCE)


async def test_a_watch_from_before_a_compaction_is_told_so(store: MetadataStore) -> None:
    first = await store.put("/w/a", b"1")
    await store.put("/w/a", b"2")
    last = await store.put("/w/a", b"3")
    await store.compact(last)
    with pytest.raises(Compacted, match="list the keys again") as caught:
        await take(store.watch("/w/", from_revision=first), 1)
    assert caught.value.revision == last
    [event] = await take(store.watch("/w/", from_revision=last), 1)
    assert event.value == b"3"


async def test_a_deletion_by_the_compacted_revision_is_still_told(store: MetadataStore) -> None:
    await store.put("/w/a", b"1")
    await store.put("/w/b", b"1")
    await store.delete("/w/a")
    deleted = await now(store)
    await store.compact(deleted)
    [event] = await take(store.watch("/w/", from_revision=deleted), 1)
    assert event == Event(DELETE, "/w/a", b"", deleted)
    with pytest.raises(Compacted):
        await take(store.watch("/w/", from_revision=deleted - 1), 1)


async def test_a_compaction_leaves_current_keys_and_revisions_alone(store: MetadataStore) -> None:
    created = await store.put("/a", b"1")
    changed = await store.put("/a", b"2")
    await store.compact(changed)
    item = await store.get("/a")
    assert item is not None
    assert (item.create_revision, item.mod_revision, item.version) == (created, changed, 2)
    assert await now(store) == changed


async def test_a_watch_that_has_seen_everything_survives_a_compaction(
    store: MetadataStore,
) -> None:
    revision = await store.put("/w/a", b"1")
    watch = store.watch("/w/", from_revision=revision)
    await take(watch, 1)
    coming = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    other = await store.put("/other", b"")
    await store.compact(other)
    await store.put("/w/a", b"2")
    [event] = await coming
    assert event.value == b"2"


async def test_compacting_again_or_further_back_does_no_harm(store: MetadataStore) -> None:
    first = await store.put("/a", b"")
    second = await store.put("/a", b"")
    await store.compact(second)
    await store.compact(second)
    await store.compact(first)
    with pytest.raises(Compacted):
        await take(store.watch("/", from_revision=first), 1)


async def test_the_future_cannot_be_compacted(store: MetadataStore) -> None:
    with pytest.raises(Refused, match="does not exist yet"):
        await store.compact(await now(store) + 1)


async def test_a_watch_cannot_begin_before_the_first_revision(store: MetadataStore) -> None:
    with pytest.raises(Refused, match="the first revision is 1"):
        store.watch("/", from_revision=0)
