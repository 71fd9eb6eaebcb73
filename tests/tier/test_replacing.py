"""How objects are replaced by one with the same offsets, step by step, and what readers see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker_containers.broker.broker import Broker
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.merging import mergeable, target_bytes
from broker_containers.topics.replacing import mark_of, replaceable, runs
from storage_grpc.tier.tier import Rewrite, head_of, key_of
from sulina.errors import CorruptEntry, Fenced, NotFound, Refused, Unavailable
from sulina.lake.decoder import Footer, open_footer
from sulina.lake.generations import newest_objects
from sulina.lake.layout import is_notice, parse_key
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys import closing, ledger_pages, ledgers, unreferenced_objects
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.policy import Policy
from tests.tier.world import TOPIC, Stopped, TierBench, make_world, read_all

SCHEMAS = (SchemaVersion(1, 1, "json_schema", b'{"properties": {"n": {"type": "integer"}}}'),)


async def tiered(world: TierBench, frames: int = 24) -> tuple[Broker, ManagedLedger]:
    """A broker whose topic has many objects, and an open ledger."""
    broker, log = await world.with_records(frames)
    await broker.tiering.round()
    assert len(replaceable(log.refs)) > 5
    return broker, log


async def merge(broker: Broker, log: ManagedLedger, refs: Sequence[LedgerRef]) -> LedgerRef:
    work = broker.replacing.replace_objects
    return await work(log, refs, Rewrite.MERGE, seconds=60.0, keep_seconds=7200.0)


async def objects(world: TierBench) -> list[str]:
    return [key for key in await world.keys() if not is_notice(key)]


async def test_one_object_replaces_several_and_readers_see_the_same(world: TierBench) -> None:
    broker, log = await tiered(world)
    before, run = log.refs, replaceable(log.refs)
    behind = log.reader(0)
    seen = [frame.data for frame in await behind.read(1)]
    new = await merge(broker, log, run)
    assert (new.first_offset, new.last_offset) == (run[0].first_offset, run[-1].last_offset)
    assert log.refs == (new, *before[len(run) :]) and log.replacement is None
    assert tuple(await world.refs())[:-1] == log.refs[:-1]
    assert await read_all(log) == world.published
    for start in range(0, log.end, 5):
        assert await read_all(log, start) == world.published[start:]
    while frames := await behind.read(1):  # a reader in the middle continues in the new object
        seen += [frame.data for frame in frames]
    assert len(seen) == len(world.published) // 3
    times = [ref.last_time_us for ref in run]
    assert [await log.offset_at(time) for time in times] == [ref.last_offset for ref in run]


async def test_the_new_object_verifies_and_names_what_it_has(world: TierBench) -> None:
    broker, log = await tiered(world)
    new = await merge(broker, log, replaceable(log.refs)[1:4])
    summary = await world.tiers[0].verify(head_of(TOPIC, new))
    assert new.tiered is not None
    assert summary.digest == new.tiered.digest and summary.records == new.records
    assert summary.generation == new.tiered.generation == 1
    name = parse_key(key_of(head_of(TOPIC, new)))
    assert (name.first_offset, name.last_offset) == (new.first_offset, new.last_offset)


async def test_replaced_objects_stay_for_their_time_and_then_go_with_the_notice(
    world: TierBench,
) -> None:
    broker, log = await tiered(world)
    run = replaceable(log.refs)
    old = [key_of(head_of(TOPIC, ref)) for ref in run]
    new = key_of(head_of(TOPIC, await merge(broker, log, run)))
    await broker.object_cleanup.round()
    there = await world.keys()
    assert set(old) <= set(there) and new in there and any(map(is_notice, there))
    world.clock.move(7201.0)
    await broker.object_cleanup.round()
    left = await world.keys()
    assert not set(old) & set(left) and new in left and not any(map(is_notice, left))
    assert not await unreferenced_objects.list_some(world.metadata, 10)
    assert await read_all(log) == world.published


async def test_a_listing_with_both_counts_only_the_new_one(world: TierBench) -> None:
    broker, log = await tiered(world)
    await merge(broker, log, replaceable(log.refs)[:3])
    await merge(broker, log, replaceable(log.refs)[:4])  # the merged one among them
    named = [key_of(head_of(TOPIC, ref)) for ref in log.refs if ref.tiered is not None]
    listed = [parse_key(key) for key in await objects(world)]
    assert len(listed) > len(named)
    assert [name.key for name in newest_objects(listed, lambda name: name)] == named


@pytest.mark.parametrize(
    "moment",
    ["before put", "after put", "before tail", "before get", "before plan", "after plan",
     "before swap", "after swap"],
)  # fmt: skip
async def test_whatever_step_a_process_dies_at_the_next_one_finishes_it(moment: str) -> None:
    world = await make_world(row_group_bytes=700)
    first, log = await tiered(world)
    run = replaceable(log.refs)
    commit, commits = log.commit, list[int]()

    async def stop(now: str, what: str) -> None:
        if now == moment and not is_notice(what):
            raise Stopped

    async def stopping(change: object, also: object = ()) -> None:
        commits.append(0)
        step = "plan" if len(commits) == 1 else "swap"
        if moment == f"before {step}":
            raise Stopped
        await commit(change, also)  # type: ignore[arg-type]
        if moment == f"after {step}":
            raise Stopped

    world.objects.hook = stop
    log.commit = stopping  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        await merge(first, log, run)
    world.objects.hook = type(world.objects)(world.memory).hook
    second = world.broker()
    again = await world.log(second)
    assert await read_all(again) == world.published
    await second.merging.merge(again)
    assert again.replacement is None
    if moment == "before plan":
        await merge(second, again, replaceable(again.refs))
    assert sum(1 for ref in again.refs if ref.tiered and ref.tiered.generation) == 1
    assert await read_all(again) == world.published
    world.clock.move(86_401.0)
    await second.object_cleanup.round()
    named = [key_of(head_of(TOPIC, ref)) for ref in again.refs if ref.tiered is not None]
    assert await world.keys() == named, "nothing is left behind"
    await world.close()


async def test_an_earlier_owner_cannot_replace_anything(world: TierBench) -> None:
    first, old = await tiered(world)
    second = world.broker()
    log = await world.log(second)
    with pytest.raises(Fenced):
        await merge(first, old, replaceable(old.refs))
    assert log.replacement is None
    assert not any(map(is_notice, await world.keys()))


async def test_an_owner_that_loses_the_topic_in_the_middle_replaces_nothing(
    world: TierBench,
) -> None:
    first, old = await tiered(world)
    taken: list[ManagedLedger] = []

    async def take_over(now: str, what: str) -> None:
        if now == "after put" and not is_notice(what) and not taken:
            taken.append(await world.log(world.broker()))

    world.objects.hook = take_over
    with pytest.raises(Fenced):
        await merge(first, old, replaceable(old.refs))
    (log,) = taken
    assert all(ref.tiered is None or ref.tiered.generation == 0 for ref in log.refs)
    assert await read_all(log) == world.published
    second = world.broker()
    again = await world.log(second)
    await second.merging.merge(again)
    assert any(ref.tiered is not None and ref.tiered.generation for ref in again.refs)
    assert await read_all(again) == world.published


async def test_a_replacement_of_what_retention_deletes_is_given_up(world: TierBench) -> None:
    broker, log = await tiered(world)
    run = replaceable(log.refs)

    async def trim(now: str, what: str) -> None:
        if now == "after put" and not is_notice(what):
            world.objects.hook = type(world.objects)(world.memory).hook
            await log.removal.trim(log.refs[:2])

    world.objects.hook = trim
    with pytest.raises(Refused, match="changed while"):
        await merge(broker, log, run)
    assert log.replacement is None
    start = log.start
    assert await read_all(log, start) == world.published[start:]
    await broker.object_cleanup.round()
    named = [key_of(head_of(TOPIC, ref)) for ref in log.refs if ref.tiered is not None]
    assert await objects(world) == named
    new = await merge(broker, log, replaceable(log.refs))
    assert new.tiered is not None and new.tiered.generation == 2, "a generation is used once"


async def test_a_damaged_object_is_neither_replaced_nor_deleted(world: TierBench) -> None:
    broker, log = await tiered(world)
    run = replaceable(log.refs)
    key = key_of(head_of(TOPIC, run[1]))
    data, size = await world.objects.inner.tail(key, 1 << 20)
    assert len(data) == size
    data = data[:20] + bytes([data[20] ^ 1]) + data[21:]
    await world.objects.inner.delete(key)
    await world.objects.inner.put(key, _chunks(data))
    with pytest.raises(CorruptEntry):
        await merge(broker, log, run)
    assert log.replacement is None and set(run) <= set(log.refs)
    await broker.object_cleanup.round()
    assert key in await world.keys()


async def test_a_missing_object_is_not_replaced(world: TierBench) -> None:
    broker, log = await tiered(world)
    run = replaceable(log.refs)
    await world.objects.inner.delete(key_of(head_of(TOPIC, run[1])))
    with pytest.raises(NotFound):
        await merge(broker, log, run)
    assert set(run) <= set(log.refs)


async def test_a_store_that_is_away_leaves_the_replacement_for_later(world: TierBench) -> None:
    broker, log = await tiered(world)

    async def refuse(now: str, what: str) -> None:
        raise Unavailable("503")

    world.objects.hook = refuse
    with pytest.raises(Unavailable):
        await merge(broker, log, replaceable(log.refs))
    assert log.replacement is not None
    with pytest.raises(Refused, match="already"):
        await merge(broker, log, replaceable(log.refs))
    world.objects.hook = type(world.objects)(world.memory).hook
    assert await broker.merging.merge(log)
    assert await read_all(log) == world.published
    assert any(ref.tiered is not None and ref.tiered.generation for ref in log.refs)


async def test_a_topic_deleted_in_the_middle_leaves_no_object(world: TierBench) -> None:
    broker, log = await tiered(world)

    async def delete(now: str, what: str) -> None:
        if now == "after put" and not is_notice(what):
            world.objects.hook = type(world.objects)(world.memory).hook
            await broker.deletion.delete(TOPIC)

    world.objects.hook = delete
    with pytest.raises((Fenced, Refused, NotFound)):
        await merge(broker, log, replaceable(log.refs))
    world.clock.move(7201.0)
    await broker.object_cleanup.round()
    assert await world.keys() == []


async def test_duplicates_are_recognised_after_a_takeover_of_a_merged_topic(
    world: TierBench,
) -> None:
    broker, log = await tiered(world)
    await merge(broker, log, replaceable(log.refs))
    again = await world.log(world.broker())
    await world.publish(again, 2)
    assert await read_all(again) == world.published


@pytest.mark.parametrize("noted", [True, False])
async def test_a_takeover_reads_the_newest_object_after_it_was_rewritten(
    world: TierBench, noted: bool
) -> None:
    broker, log = await tiered(world)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    refs = replaceable(log.refs, Rewrite.TYPED)
    assert refs == list(log.refs)
    work = broker.replacing.replace_objects
    new = await work(log, refs, Rewrite.TYPED, SCHEMAS, seconds=60.0, keep_seconds=0.0)
    assert log.refs == (new,)
    if not noted:  # as if the closing frame had been too long for the metadata
        await world.metadata.delete(closing.key(TOPIC))
    again = await world.log(world.broker())
    assert again.dedup.snapshot() == log.dedup.snapshot() and again.end == log.end
    await world.publish(again, 2)
    assert await read_all(again) == world.published


async def test_only_objects_of_another_schema_are_rewritten_and_only_once(
    world: TierBench,
) -> None:
    broker, log = await tiered(world)
    with pytest.raises(Refused, match="no schema"):
        await broker.merging.rewrite(log)

    async def schemas_of(topic: object) -> tuple[SchemaVersion, ...]:
        return SCHEMAS

    broker.tiering.schemas_of = schemas_of
    await broker.tiering.flush(log)
    await broker.tiering.round()  # the newest ledger gets typed columns by itself
    left = await broker.merging.rewrite(log)
    assert left == list(log.refs[:-1])
    while await broker.merging.rewrite(log):
        assert await broker.merging.merge(log)
    assert not await broker.merging.merge(log) and broker.merging.counters.rewritten == len(left)
    assert len(log.refs) == 2
    assert await read_all(log) == world.published
    listed = [parse_key(key) for key in await objects(world)]
    for name in newest_objects(listed, lambda name: name):
        tail, size = await world.objects.inner.tail(name.key, 1 << 20)
        footer = open_footer(tail, size)
        assert isinstance(footer, Footer) and footer.typed is not None
    assert [ref.tiered and ref.tiered.schema for ref in await world.refs()] == [
        mark_of(SCHEMAS)
    ] * 2


async def test_typed_columns_are_not_lost_in_a_merge(world: TierBench) -> None:
    async def schemas_of(topic: object) -> tuple[SchemaVersion, ...]:
        return SCHEMAS

    broker, log = await world.with_records(24)
    broker.tiering.schemas_of = schemas_of
    await broker.tiering.round()
    with pytest.raises(Refused, match="has typed columns"):
        await merge(broker, log, replaceable(log.refs))
    assert log.replacement is None


@pytest.mark.parametrize("keep_us", [None, 1_000_000])
async def test_retention_removes_no_more_when_a_merge_comes_first(
    world: TierBench, monkeypatch: pytest.MonkeyPatch, keep_us: int | None
) -> None:
    broker, log = await tiered(world)
    swap, trims = broker.replacing._swap, []

    async def swap_while_retention_waits(*parts: Any) -> None:
        async with log._owned._turn:
            swapping = asyncio.create_task(swap(*parts))
            await asyncio.sleep(0)
            trims.append(asyncio.create_task(log.removal.trim(log.refs[:2], keep_us)))
            await asyncio.sleep(0)
        await swapping

    monkeypatch.setattr(broker.replacing, "_swap", swap_while_retention_waits)
    await merge(broker, log, replaceable(log.refs)[:4])
    assert await asyncio.gather(*trims) == [0]
    assert log.start == 0 and await read_all(log) == world.published
    assert len(await objects(world)) == len(log.refs) - 1 + 4


async def test_retention_deletes_a_merged_object_as_a_whole(world: TierBench) -> None:
    broker, log = await tiered(world)
    new = await merge(broker, log, replaceable(log.refs))
    await log.removal.trim(log.refs[:1])
    assert log.start == (new.last_offset or 0) + 1
    assert key_of(head_of(TOPIC, new)) not in await world.keys()
    assert await read_all(log, log.start) == world.published[log.start :]


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 7), (2, 3), (4, 9), (0, 11)])
async def test_a_run_across_pages_is_replaced_in_one_swap(
    world: TierBench, monkeypatch: pytest.MonkeyPatch, first: int, count: int
) -> None:
    monkeypatch.setattr(ledger_pages, "PAGE", 3)
    broker, log = await tiered(world, 48)
    assert len((await stored(world)).pages) > 2
    run = replaceable(log.refs)[first : first + count]
    new = await merge(broker, log, run)
    assert (await stored(world)).ledgers[:-1] == log.refs[:-1] and new in log.refs
    again = await world.log(world.broker())
    assert again.refs[: len(log.refs) - 1] == log.refs[:-1]
    assert await read_all(again) == world.published
    await again.removal.trim(again.refs[:2])  # from a page that changed
    assert (await stored(world)).ledgers[0].first_offset == again.start
    assert await read_all(again, again.start) == world.published[again.start :]


async def stored(world: TierBench) -> LedgerList:
    return (await ledgers.get(world.metadata, TOPIC)).list


async def test_a_topic_with_a_freshness_has_its_records_in_objects_that_soon(
    world: TierBench,
) -> None:
    broker, _ = await world.with_records(1)
    topic = await broker.topic(TOPIC)
    topic.policy = replace(topic.policy, freshness_ms=4000)
    await broker.tiering.round()
    assert not await objects(world)
    world.clock.move(2.0)  # the other half is for the upload
    await broker.tiering.round()
    assert len(await objects(world)) == 1
    assert broker.tiering.counters.freshness.quantile(0.99) <= 4.0
    assert broker.tiering.stored()[0] == 1
    assert target_bytes(topic.policy, broker.tiering.settings) == 128 << 20
    topic.policy = replace(topic.policy, merge_bytes=1000)
    assert target_bytes(topic.policy, broker.tiering.settings) == 1000
    assert target_bytes(Policy(), broker.tiering.settings) == 0


def test_a_freshness_below_a_second_is_refused() -> None:
    with pytest.raises(Refused, match="at least 1000"):
        Policy(freshness_ms=999)


def ref(number: int, size: int, **more: object) -> LedgerRef:
    """A ledger of ten records whose object has so many bytes."""
    known = {"tiered": TieredRef(size, "", local=False), **more}
    offset = number * 10
    return LedgerRef(number, offset, offset + 9, LedgerState.CLOSED, 1, 1, 1, 0, **known)  # type: ignore[arg-type]


def test_only_ledgers_in_objects_before_the_newest_closed_one_can_be_replaced() -> None:
    local = ref(2, 1, tiered=TieredRef(1, ""))
    refs = [ref(0, 1), ref(1, 1), local, ref(3, 1), ref(4, 1), ref(5, 1)]
    assert [[each.id for each in run] for run in runs(refs)] == [[0, 1], [3, 4]]


@pytest.mark.parametrize(
    ("sizes", "target", "merged"),
    [
        ([1] * 9, 100, range(8)),
        ([1] * 8, 100, ()),  # the newest is left alone
        ([100, *[1] * 20, 1], 1000, range(1, 21)),  # a large one is not rewritten for little
        ([1] * 30, 10, range(10)),
        ([50, *[7] * 9], 100, range(1, 9)),
        ([10] * 30, 0, ()),
        ([200] * 30, 100, ()),
    ],
)
def test_merges_join_many_of_similar_size_up_to_the_target(
    sizes: list[int], target: int, merged: Sequence[int]
) -> None:
    refs = [ref(number, size) for number, size in enumerate(sizes)]
    assert [each.id for each in mergeable(refs, target)] == list(merged)


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data
