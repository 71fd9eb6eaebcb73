"""How a ledger becomes an object, step by step, and what readers see during that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker_containers.broker.broker import Broker
from broker_containers.metrics.collectors.broker import BrokerMetrics
from broker_containers.topics.replacing import replaceable
from broker_containers.topics.retention_plan import fates
from broker_containers.topics.tiering import TieringSettings, droppable, untiered
from storage_grpc.tier.tier import Rewrite
from sulina.errors import NotFound, Unavailable
from sulina.lake.layout import is_notice
from sulina.metadata.keys import closing, ledgers, unreferenced_objects
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.policy import Policy
from sulina.model import FailurePolicy, Start, SubscriptionType
from sulina.wire.decode import Frame
from tests.tier.world import SETTINGS, TOPIC, Stopped, TierBench, make_world, read_all

HOUR_US = 3_600_000_000


async def test_closed_ledgers_become_objects_and_their_entries_go(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    closed = [ref for ref in log.refs if ref.state is LedgerState.CLOSED]
    assert len(closed) > 3
    await broker.tiering.round()
    for ref in await world.refs():
        if ref.state is LedgerState.CLOSED:
            assert ref.tiered is not None and not ref.tiered.local
            assert world.entries.stat(ref.id) is None
    assert len(await world.keys()) == len(closed) == broker.tiering.counters.objects
    assert await read_all(log) == world.published


async def test_a_reader_goes_from_objects_to_ledgers_to_what_is_being_written(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(10)
    await broker.tiering.round()
    await world.publish(log, 10)
    where = [ref.tiered is not None for ref in log.refs]
    assert where == sorted(where, reverse=True) and any(where) and not all(where)
    for start in range(0, log.end, 7):
        assert await read_all(log, start) == world.published[start:]


async def test_a_flush_closes_the_open_ledger_and_publishing_goes_on(world: TierBench) -> None:
    broker, log = await world.with_records(2)
    assert log.refs[-1].state is LedgerState.OPEN
    wanted = await broker.tiering.flush(log)
    assert [ref.records for ref in wanted] == [6]
    await broker.tiering.round()
    assert not untiered(log.refs)
    await world.publish(log, 1)
    assert await read_all(log) == world.published


async def test_a_flush_of_nothing_does_nothing(world: TierBench) -> None:
    broker = world.broker()
    log = await world.log(broker)
    assert await broker.tiering.flush(log) == []
    assert await world.keys() == []


async def test_an_idle_ledger_becomes_an_object_when_it_is_old_enough(world: TierBench) -> None:
    broker, _ = await world.with_records(1)
    await broker.tiering.round()
    assert await world.keys() == []
    world.clock.move(1000.0)
    await broker.tiering.round()
    assert len(await world.keys()) == 1


@pytest.mark.parametrize(
    "moment",
    [
        "before put",
        "after put",
        "before tail",
        "before entries",
        "after entries",
        "before swap",
        "after swap",
    ],
)
async def test_whatever_step_a_process_dies_at_the_next_one_finishes_it(moment: str) -> None:
    world = await make_world(row_group_bytes=700)
    first, log = await world.with_records(12)

    async def stop(now: str, what: str) -> None:
        if now == moment:
            raise Stopped

    world.objects.hook = stop
    world.ledgers.hook = stop
    swap = log.commit
    if moment.endswith("swap"):

        async def stopped(change: object, also: object = ()) -> None:
            if moment == "after swap":
                await swap(change, also)  # type: ignore[arg-type]
            raise Stopped

        log.commit = stopped  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        await first.tiering.round()
    second = world.broker()
    world.objects.hook = type(world.objects)(world.memory).hook
    again = await world.log(second)
    assert await read_all(again) == world.published
    for ref in await world.refs():
        # Entries are deleted only after the list allows it.
        assert ref.tiered is not None or world.entries.stat(ref.id) is not None
    await world.publish(again, 3)
    await second.tiering.round()
    await second.tiering.round()
    assert not untiered(again.refs)
    assert not droppable(again.refs, second.tiering.settings, world.clock.wall_us())
    assert len(await world.keys()) == sum(1 for ref in again.refs if ref.tiered is not None)
    assert await read_all(again) == world.published
    await world.close()


async def test_a_lost_answer_of_a_put_is_found_out_by_reading_back(world: TierBench) -> None:
    broker, log = await world.with_records(8)
    lost: list[str] = []

    async def lose(moment: str, key: str) -> None:
        if moment == "after put" and key not in lost:
            lost.append(key)
            raise Unavailable("the answer was lost")

    world.objects.hook = lose
    await broker.tiering.round()
    assert broker.tiering.counters.failures == len(lost) > 0
    assert all(ref.tiered is None for ref in log.refs)
    world.clock.move(10.0)
    await broker.tiering.round()
    assert not untiered(log.refs) and sorted(lost) == await world.keys()
    assert await read_all(log) == world.published


async def test_an_object_that_reads_back_wrong_keeps_the_entries(world: TierBench) -> None:
    broker, log = await world.with_records(8)
    tail = world.memory.tail

    async def flipped(key: str, length: int) -> tuple[bytes, int]:
        data, size = await tail(key, length)
        return data[:40] + bytes([data[40] ^ 1]) + data[41:], size

    world.memory.tail = flipped  # type: ignore[method-assign]
    await broker.tiering.round()
    assert broker.tiering.counters.failures > 0 and broker.tiering.counters.objects == 0
    assert all(str(topic).startswith("/") and why for topic, why in broker.tiering.failures())
    assert broker.tiering.failures()
    assert all(ref.tiered is None for ref in log.refs)
    world.memory.tail = tail  # type: ignore[method-assign]
    world.clock.move(10.0)
    await broker.tiering.round()
    assert not untiered(log.refs)
    assert await read_all(log) == world.published


async def test_an_object_with_other_records_in_its_place_is_neither_taken_nor_deleted(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(4)
    await broker.tiering.flush(log)
    other = await make_world()
    theirs = await other.log(other.broker())
    await other.publish(theirs, 4, producer="q")
    second = other.broker()
    other_log = await other.log(second)
    await second.tiering.flush(other_log)
    await second.tiering.round()
    world.memory._objects.update(other.memory._objects)
    before = dict(world.memory._objects)
    await broker.tiering.round()
    assert broker.tiering.counters.failures > 0
    assert before.items() <= world.memory._objects.items()
    assert await read_all(log) == world.published
    await other.close()


# ---- takeover ----


async def test_a_takeover_behind_an_object_knows_the_producers_again(world: TierBench) -> None:
    first = world.broker()
    log = await world.log(first)
    await world.publish(log, 5, producer="a")
    await world.publish(log, 5, producer="b")
    await first.tiering.flush(log)
    await first.tiering.round()
    assert all(ref.tiered is not None and not ref.tiered.local for ref in log.refs)
    world.objects.calls.clear()
    again = await world.log(world.broker())
    assert (again.end, again.dedup.snapshot()) == (log.end, log.dedup.snapshot())
    assert world.objects.calls == []  # the object store may be down just then
    await world.metadata.delete(closing.key(TOPIC))
    again = await world.log(world.broker())
    assert (again.end, again.dedup.snapshot()) == (log.end, log.dedup.snapshot())
    assert len(world.objects.calls) == 1  # the footer is enough
    await world.publish(again, 2, producer="a")
    assert await read_all(again) == world.published


async def test_without_a_closing_frame_a_takeover_reads_the_object(world: TierBench) -> None:
    first = world.broker()
    log = await world.log(first)
    await world.publish(log, 5, producer="a")
    await world.publish(log, 5, producer="b")
    log.closing_frame = lambda ref: b""  # type: ignore[method-assign]
    await first.tiering.flush(log)
    await first.tiering.round()
    again = await world.log(world.broker())
    assert (again.end, again.dedup.snapshot()) == (log.end, log.dedup.snapshot())


async def test_entries_that_are_lost_are_read_from_objects(world: TierBench) -> None:
    world.settings = world.settings.__class__(
        ledger=world.settings.ledger, tier=TieringSettings(local_seconds=HOUR_US)
    )
    first, log = await world.with_records(10)
    await first.tiering.flush(log)
    await first.tiering.round()
    assert all(ref.tiered is not None and ref.tiered.local for ref in log.refs)
    for ref in log.refs:
        await world.entries.delete(ref.id)  # the disks are gone
    again = await world.log(world.broker())
    assert await read_all(again) == world.published
    middle = await again.offset_at(Frame((await log.reader(9).read(1))[0].data).times[0])
    assert middle == 9


async def test_a_broker_without_a_tier_says_what_it_lacks(world: TierBench) -> None:
    first, log = await world.with_records(10)
    await first.tiering.round()
    await world.publish(log, 10)
    again = await world.log(world.broker(tier=False))
    with pytest.raises(Unavailable, match="--tier"):
        await read_all(again)
    assert await read_all(again, again.refs[-1].first_offset)


# ---- times ----


async def test_a_time_is_found_in_objects_as_in_ledgers() -> None:
    world = await make_world(row_group_bytes=1500)
    broker = world.broker()
    log = await world.log(broker)
    times = []
    for _ in range(12):
        times.append(world.clock.wall_us())
        await world.publish(log, 1)
        world.clock.move(10.0)
    wanted = [*times, *(time + 2 for time in times), times[0] - 5, times[-1] + 5_000_000]
    before = [await log.offset_at(time) for time in wanted]
    assert before[:3] == [0, 3, 6]
    await broker.tiering.flush(log)
    await broker.tiering.round()
    assert all(not ref.is_local for ref in log.refs)
    assert [await log.offset_at(time) for time in wanted] == before
    await world.close()


# ---- retention and deletion ----


async def test_retention_deletes_objects_and_nothing_else_does(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.round()
    keys = await world.keys()
    assert await log.removal.trim(log.refs[:2]) == 2
    assert await world.keys() == keys[2:]
    assert await read_all(log, log.start) == world.published[log.start :]
    await broker.object_cleanup.round()
    assert await world.keys() == keys[2:]


async def test_a_topic_all_of_whose_records_are_deleted_goes_on_where_it_ended(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    await log.begin()
    while len(log.refs) > 1:
        await log.removal.trim(log.refs[:-1])
    assert await world.keys() == []
    await broker.tiering.flush(log)  # an empty ledger does not become an object
    await broker.tiering.round()
    assert await world.keys() == []
    successor = await world.log(world.broker())
    end = len(world.published)
    assert (successor.start, successor.end) == (end, end)
    assert await successor.reader(0).read(1000) == [], "there is nothing, and that is no error"
    await world.publish(successor, 3)
    assert await read_all(successor, end) == world.published[end:]
    assert (await successor.reader(0).read(1000))[0].base == end


async def test_entries_that_are_deleted_twice_do_not_bring_back_a_replaced_object(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(20)
    broker.tiering.settings = replace(SETTINGS.tier, local_seconds=3600)
    await broker.tiering.round()
    made: list[LedgerRef] = []

    async def meanwhile(moment: str, ledger: str) -> None:
        if moment == "after entries" and not made:
            made.append(log.refs[0])
            await broker.tiering.drop_local(log, at_once=True)  # as an erasure does
            work = broker.replacing.replace_objects
            run = replaceable(log.refs)
            made[0] = await work(log, run, Rewrite.MERGE, seconds=60, keep_seconds=60)

    world.ledgers.hook = meanwhile
    await broker.tiering.drop_local(log, at_once=True)
    assert log.refs[0] == made[0]
    assert await read_all(log) == world.published


async def test_objects_are_kept_for_their_time_although_ledgers_after_them_are_not(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.round()
    await world.publish(log, 20)
    topic, keys = await broker.topic(TOPIC), await world.keys()
    topic.policy = Policy(retention_ms=1000)
    world.clock.move(3600)
    objects = len([ref for ref in log.refs if ref.tiered])
    now_us = world.clock.wall_us()
    shown = fates(log.refs, topic.policy, now_us, 0)
    assert {each.leaves_us for each in shown} == {now_us}
    day_us = broker.retention.kept_us(log.refs[:objects])
    assert broker.retention.deletions(log, shown) == [now_us + day_us] * len(shown)
    assert await broker.retention.apply(topic) == objects
    assert await broker.retention.apply(topic) == 0, "without them, the objects could not return"
    assert [key for key in await world.keys() if not is_notice(key)] == keys
    topic.policy = Policy()
    assert await broker.retention.restore(topic) == objects
    assert await read_all(log) == world.published
    topic.policy = Policy(retention_ms=1000)
    await broker.tiering.round()
    while await broker.retention.apply(topic):
        pass
    assert log.start == log.end, "as objects, all of them can go, and are kept"


async def test_a_policy_says_how_long_and_how_much_stays_on_storage_nodes(
    world: TierBench,
) -> None:
    broker, log = await world.with_records(20)
    topic = await broker.topic(TOPIC)

    def local() -> list[LedgerRef]:
        return [ref for ref in log.refs if ref.tiered is not None and ref.is_local]

    topic.policy = Policy(local_retention_ms=3_600_000, local_retention_bytes=3_000)
    await broker.tiering.round()
    assert len(local()) > 4, "whatever tier.local_seconds says"
    world.clock.move(2 * 3600)
    await broker.tiering.round()
    kept = [ref for ref in log.refs if ref.is_local]
    assert sum(ref.bytes for ref in kept) >= 3_000 > sum(ref.bytes for ref in kept[1:])
    topic.policy = Policy(local_retention_ms=86_400_000, local_delete_consumed=True)
    await broker.tiering.round()
    assert local(), "nobody has consumed them"
    await broker.subscriptions.subscribe(
        topic, "s", SubscriptionType.EXCLUSIVE, Start.latest(), FailurePolicy()
    )
    await broker.tiering.round()
    assert not local()
    assert await read_all(log) == world.published


async def test_what_is_restored_at_the_last_moment_is_not_deleted(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.round()
    await log.removal.trim(log.refs[:3], keep_us=1_000_000)
    world.clock.move(3600)
    async with log._owned._turn:
        restoring = asyncio.create_task(log.removal.restore())
        await asyncio.sleep(0)
        deleting = asyncio.create_task(log.removal.delete_overdue(world.clock.wall_us()))
        await asyncio.sleep(0)
    assert (await restoring, await deleting) == (3, 0)
    assert await read_all(log) == world.published


async def test_objects_whose_deletion_was_interrupted_are_found_by_others(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.round()
    keys = await world.keys()

    async def stop(moment: str, key: str) -> None:
        if moment == "before delete":
            raise Stopped

    world.objects.hook = stop
    with pytest.raises(Stopped):
        await log.removal.trim(log.refs[:2])
    assert await world.keys() == keys
    world.objects.hook = type(world.objects)(world.memory).hook
    other = world.broker()
    await other.object_cleanup.round()
    assert await world.keys() == keys[2:]
    assert len(await unreferenced_objects.list_some(world.metadata, 10)) == 1
    other.object_cleanup.grace_seconds = 0
    await other.object_cleanup.round()
    assert await unreferenced_objects.list_some(world.metadata, 10) == []


async def test_an_upload_that_ends_behind_the_deletion_is_deleted_too(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    await broker.tiering.round()
    late = dict(world.memory._objects)
    await log.removal.trim(log.refs[:2])
    await broker.object_cleanup.round()
    world.memory._objects.update(late)  # as if they had been under way
    broker.object_cleanup.grace_seconds = 0
    await broker.object_cleanup.round()
    assert len(await world.keys()) == sum(1 for ref in log.refs if ref.tiered)


async def test_deleting_a_topic_deletes_its_objects(world: TierBench) -> None:
    broker, _ = await world.with_records(20)
    await broker.tiering.round()
    assert await world.keys()
    await broker.deletion.delete(TOPIC)
    assert await world.keys() == [] and world.entries.ledgers() == []
    fresh = await world.log(world.broker())
    world.published.clear()
    world.sequences.clear()
    await world.publish(fresh, 3)
    assert await read_all(fresh) == world.published


async def test_a_topic_made_again_keeps_its_objects_though_the_old_ones_are_doomed(
    world: TierBench,
) -> None:
    broker, _ = await world.with_records(10)
    await broker.tiering.round()
    await broker.deletion.delete(TOPIC)
    fresh = await world.log(broker)
    world.published.clear()
    await world.publish(fresh, 10)
    await broker.tiering.flush(fresh)
    await broker.tiering.round()
    keys = await world.keys()
    broker.object_cleanup.grace_seconds = 0
    await broker.object_cleanup.round()
    assert await world.keys() == keys
    assert await read_all(fresh) == world.published


# ---- what stays local ----


def _ref(number: int, *, tiered: bool = True) -> LedgerRef:
    return LedgerRef(
        number + 1,
        number * 10,
        number * 10 + 9,
        LedgerState.CLOSED,
        100,
        number * HOUR_US,
        number * HOUR_US,
        9,
        TieredRef(50, "d") if tiered else None,
    )


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        (TieringSettings(local_seconds=0), [0, 1, 2, 3]),
        (TieringSettings(local_seconds=7200), [0, 1, 2]),
        (TieringSettings(local_seconds=0, local_bytes=150), [0, 1]),
        (TieringSettings(local_seconds=7200, local_bytes=100), [0, 1, 2]),
    ],
)
def test_entries_stay_for_as_long_and_as_many_as_is_set(
    settings: TieringSettings, left: list[int]
) -> None:
    refs = [_ref(n) for n in range(4)]
    found = droppable(refs, settings, 4 * HOUR_US)
    assert [ref.id - 1 for ref in found] == left


def test_entries_of_ledgers_without_objects_never_go() -> None:
    refs = [_ref(0), _ref(1, tiered=False), _ref(2)]
    found = droppable(refs, TieringSettings(local_seconds=0), 100 * HOUR_US)
    assert [ref.id for ref in found] == [1, 3]


async def test_a_swap_with_an_unknown_outcome_is_settled(world: TierBench) -> None:
    broker, log = await world.with_records(10)
    real = world.metadata.txn
    lost = 0

    async def lose(*args: object) -> object:
        nonlocal lost
        result = await real(*args)  # type: ignore[arg-type]
        if lost < 2 and args[1]:
            lost += 1
            raise Unavailable("the answer was lost")
        return result

    world.metadata.txn = lose  # type: ignore[assignment,method-assign]
    await broker.tiering.round()
    world.clock.move(10.0)
    await broker.tiering.round()
    assert not untiered(log.refs)
    assert (await ledgers.get(world.metadata, TOPIC)).list.ledgers[:-1] == log.refs[:-1]
    await world.publish(log, 5)
    assert await read_all(log) == world.published


async def test_a_missing_object_is_told_and_never_skipped(world: TierBench) -> None:
    broker, log = await world.with_records(10)
    await broker.tiering.round()
    world.memory._objects.clear()
    with pytest.raises(NotFound):
        await read_all(log)


# ---- metrics ----


async def test_the_metrics_tell_how_far_objects_lie_behind(world: TierBench) -> None:
    broker, log = await world.with_records(20)
    closed = [ref for ref in log.refs if ref.state is LedgerState.CLOSED]
    world.clock.move(100.0)
    lag = broker.tiering.lag()
    assert (lag.ledgers, lag.bytes) == (len(closed), sum(ref.bytes for ref in closed))
    assert 100 <= lag.seconds < 1000
    text = await _metrics(broker)
    assert f"sulina_tier_untiered_ledgers {len(closed)}" in text
    await broker.tiering.round()
    text = await _metrics(broker)
    assert "sulina_tier_lag_seconds 0" in text
    assert f"sulina_tier_objects_total {len(closed)}" in text
    assert f"sulina_tier_local_deleted_total {len(closed)}" in text
    assert "sulina_tier" not in await _metrics(world.broker(tier=False))


async def _metrics(broker: Broker) -> str:
    return (await BrokerMetrics(broker, 10).collect()).decode()
