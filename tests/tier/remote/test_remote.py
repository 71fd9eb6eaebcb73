"""Brokers have storage nodes write and read objects, over real gRPC on the loopback."""

from __future__ import annotations

import asyncio

import pytest

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import Erase, replaceable
from broker_containers.topics.tiering import untiered
from storage_grpc.tier.tier import Rewrite, head_of
from sulina.errors import CorruptEntry, NotFound, Unavailable, UnknownOutcome
from sulina.lake.erasing import key_digest
from sulina.lake.summary import ObjectHead
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys.ledgers import TieredRef
from sulina.metadata.keys.policy import Policy
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from tests.support.logs import append
from tests.tier.remote.cluster import TierCluster, tier_cluster
from tests.tier.world import TOPIC, read_all


async def test_a_whole_topic_goes_through_nodes_into_objects_and_back(
    cluster: TierCluster,
) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 12, producer="a")
    await broker.tiering.round()
    await world.publish(log, 6, producer="b")
    assert await read_all(log) == world.published
    await broker.tiering.flush(log)
    await broker.tiering.round()
    assert not untiered(log.refs) and not any(ref.is_local for ref in log.refs)
    assert all(storage.entries.ledgers() == [] for storage in cluster.storages)
    again = await world.log(cluster.broker())
    assert again.dedup.snapshot() == log.dedup.snapshot()
    assert await read_all(again) == world.published
    time = Frame((await again.reader(20).read(1))[0].data).times[0]
    assert await again.offset_at(time) in range(18, 21)
    tier = cluster.tier()
    for ref in again.refs:
        summary = await tier.verify(head_of(TOPIC, ref))
        assert ref.tiered is not None
        assert (summary.digest, summary.size) == (ref.tiered.digest, ref.tiered.size)
    await tier.delete([head_of(TOPIC, ref) for ref in again.refs])
    assert await world.keys() == []
    with pytest.raises(NotFound):
        await tier.verify(head_of(TOPIC, again.refs[0]))


async def test_nodes_replace_objects_by_one_and_delete_them_later(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 20)
    await broker.tiering.round()
    old = replaceable(log.refs)
    assert len(old) > 3
    new = await broker.replacing.replace_objects(
        log, old, Rewrite.MERGE, seconds=60.0, keep_seconds=3600.0
    )
    assert new.records == sum(ref.records for ref in old)
    assert (await cluster.tier().verify(head_of(TOPIC, new))).generation == 1
    assert await read_all(log) == world.published
    assert await log.offset_at(old[2].last_time_us) == old[2].last_offset
    again = await world.log(cluster.broker())
    assert new in again.refs and await read_all(again) == world.published
    world.clock.move(3601.0)
    await broker.object_cleanup.round()
    assert len(await world.keys()) == len([ref for ref in again.refs if ref.tiered])
    with pytest.raises(NotFound):
        await cluster.tier().verify(head_of(TOPIC, old[0]))


async def test_nodes_compact_objects_and_erase_keys_from_them(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    for number in range(40):  # 13 keys in turns; payloads so large that there are many ledgers
        frame = encode_frame(
            Origin("p"), number, [b"%d" % number * 200], number + 1, keys=[b"k%d" % (number % 13)]
        )
        await append(log, frame)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    while await broker.compacting.step(log, Policy(compact=True)):
        pass
    cleaned = log.compaction.cleaned
    assert 26 < cleaned < 40
    newest = range(cleaned - 13, cleaned)
    assert await offsets(log) == [*newest, *range(cleaned, 40)]
    tier, head = cluster.tier(), head_of(TOPIC, log.refs[-1])
    found = [
        await tier.count_erasable(head_of(TOPIC, ref), [key_digest(b"k0")]) for ref in log.refs
    ]
    assert sum(found) == len([number for number in await offsets(log) if number % 13 == 0])
    key = b"k%d" % (39 % 13)
    made = await broker.replacing.erase_objects(
        log, log.refs[-1:], Erase((key_digest(key),), 0), seconds=60.0, keep_seconds=60.0
    )
    assert made.erased >= 1 and made.others.startswith("v1-")
    with pytest.raises(NotFound):
        await tier.count_erasable(ObjectHead(TOPIC, head.ledger + 1000, 0), [key_digest(key)])
    head = head_of(TOPIC, log.refs[-1])
    assert not await tier.count_erasable(head, [key_digest(key)])
    last = ((head.last_offset, head.last_offset),)
    assert await tier.count_erasable(head, [], last) == 0, "it is erased already"
    assert await offsets(log) == [*newest, *range(cleaned, 40)]


async def offsets(log: ManagedLedger) -> list[int]:
    """The offsets of all records."""
    reader, found = log.reader(0), list[int]()
    while frames := await reader.read(1 << 20):
        found += [offset for each in frames for offset in range(each.base, each.header.next_offset)]
    return found


async def test_nodes_write_typed_columns_with_the_schemas_they_are_given(
    cluster: TierCluster,
) -> None:
    async def schemas_of(topic: object) -> tuple[SchemaVersion, ...]:
        return (SchemaVersion(1, 1, "json_schema", b'{"properties": {"n": {"type": "integer"}}}'),)

    world, broker = cluster.world, cluster.broker()
    broker.tiering.schemas_of = schemas_of
    log = await world.log(broker)
    await world.publish(log, 4)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    # The payloads of this world are not JSON.
    assert broker.tiering.counters.rejected == sum(ref.records for ref in log.refs) > 0
    assert await read_all(log) == world.published


async def test_a_node_fetches_entries_that_it_lacks_from_the_others(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 4)
    await broker.tiering.flush(log)
    # No node has all entries, and each has some.
    for number, storage in enumerate(cluster.storages):
        for ledger in storage.entries._ledgers.values():
            for entry in list(ledger.entries):
                if entry % 3 != number:
                    del ledger.entries[entry]
    await broker.tiering.round()
    assert broker.tiering.counters.failures == 0 and not untiered(log.refs)
    assert await read_all(log) == world.published


async def test_nothing_is_made_of_a_ledger_that_lost_an_entry_everywhere(
    cluster: TierCluster,
) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 1)
    [ref] = await broker.tiering.flush(log)
    for storage in cluster.storages:
        storage.entries._ledgers[ref.id].entries.pop(1, None)
    await broker.tiering.round()
    assert broker.tiering.counters.failures == 1
    assert await world.keys() == [] and untiered(log.refs)


async def test_reads_go_on_when_nodes_go(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 12)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    await cluster.storages[0].stop()
    assert await read_all(log) == world.published
    await cluster.storages[1].stop()
    assert await read_all(log) == world.published
    await cluster.storages[2].stop()
    with pytest.raises((Unavailable, UnknownOutcome)):
        await read_all(log)
    for storage in cluster.storages:
        await storage.start()
    async with asyncio.timeout(60):
        while True:
            try:
                assert await read_all(log) == world.published
            except (Unavailable, UnknownOutcome):
                await asyncio.sleep(0.05)
            else:
                break


async def test_a_slow_node_is_not_waited_for(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 3)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    slow = 0
    held = asyncio.Event()

    async def first_waits(moment: str, key: str) -> None:
        nonlocal slow
        if moment == "before tail":
            slow += 1
            if slow == 1:
                await held.wait()

    for storage in cluster.storages:
        await storage.stop()  # so that nothing is cached
        await storage.start()
    await cluster.eventually_known(3)
    async with asyncio.timeout(60):
        await cluster.nodes.ready(3)
    world.objects.hook = first_waits
    log.tier = cluster.tier(hedge_seconds=0.05)
    assert await read_all(log) == world.published
    assert slow >= 2
    held.set()


async def test_only_nodes_with_an_object_store_are_asked() -> None:
    async with tier_cluster(tiers=1) as cluster:
        world, broker = cluster.world, cluster.broker()
        assert len(cluster.nodes.with_tier()) == 1
        log = await world.log(broker)
        await world.publish(log, 12)
        await broker.tiering.flush(log)
        await broker.tiering.round()
        assert broker.tiering.counters.failures == 0 and not untiered(log.refs)
        assert await read_all(log) == world.published


async def test_a_node_that_keeps_objects_elsewhere_is_not_asked(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    stray = cluster.storages[1]
    await stray.stop()
    stray.place_of_objects = "memory://elsewhere"
    await stray.start()
    async with asyncio.timeout(60):
        while {node.tier for node in cluster.nodes.with_tier()} != {
            "memory://objects",
            "memory://elsewhere",
        }:
            await asyncio.sleep(0.01)
    asked: list[str] = []
    assert stray.tier is not None

    async def refuse(*_: object) -> TieredRef:
        asked.append("stray")
        raise Unavailable("nobody should ask")

    stray.tier.offload = refuse  # type: ignore[assignment, method-assign]
    log = await world.log(broker)
    await world.publish(log, 12)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    assert not untiered(log.refs) and asked == []
    assert await read_all(log) == world.published


async def test_without_an_object_store_nothing_is_done() -> None:
    async with tier_cluster(tiers=0) as cluster:
        world, broker = cluster.world, cluster.broker()
        log = await world.log(broker)
        await world.publish(log, 12)
        await broker.tiering.round()
        assert not broker.tiering.ready and broker.tiering.counters.failures == 0
        with pytest.raises(Unavailable, match="--tier"):
            await cluster.tier().verify(head_of(TOPIC, log.refs[0]))
        assert await read_all(log) == world.published


async def test_a_damaged_object_is_an_error_on_the_way_too(cluster: TierCluster) -> None:
    world, broker = cluster.world, cluster.broker()
    log = await world.log(broker)
    await world.publish(log, 3)
    await broker.tiering.flush(log)
    await broker.tiering.round()
    for key, (info, data) in list(world.memory._objects.items()):
        damaged = data[:30] + bytes([data[30] ^ 1]) + data[31:]
        world.memory._objects[key] = (info, damaged)
    for storage in cluster.storages:
        await storage.stop()
        await storage.start()
    await cluster.eventually_known(3)
    async with asyncio.timeout(60):
        await cluster.nodes.ready(3)
    with pytest.raises(CorruptEntry):
        await read_all(log)
