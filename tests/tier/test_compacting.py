"""Compaction by key against a model: any interleaving of publish, tier, compact, crash and read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_containers.broker.broker import Broker
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.compacting import next_run, ready_for_compaction, worth_a_round
from storage_grpc.tier.tier import head_of, key_of
from sulina.metadata.keys.ledger_list import CompactionState, LedgerList, Replacement
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.tombstones import is_tombstone, tombstone_attributes
from tests.support.logs import append
from tests.tier.world import SETTINGS, Stopped, TierBench, make_world

HOUR_MS = 3_600_000
POLICY = Policy(compact=True, tombstone_retention_ms=HOUR_MS)
SMALL = replace(
    SETTINGS,
    ledger=replace(SETTINGS.ledger, roll_bytes=400),
    tier=replace(SETTINGS.tier, compact_bytes=3000, compact_percent=1),
)


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None
    payload: bytes
    tombstone: bool


def state_of(records: Sequence[Record]) -> dict[bytes, bytes]:
    """The newest value of each key."""
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.key is not None and record.tombstone:
            state.pop(record.key, None)
        elif record.key is not None:
            state[record.key] = record.payload
    return state


@dataclass
class Scene:
    """A topic, the processes that serve it one after the other, and what was published."""

    world: TierBench
    published: list[Record] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    broker: Broker = field(init=False)
    log: ManagedLedger = field(init=False)

    async def start(self) -> None:
        """A new process takes the topic over."""
        self.world.objects.hook = type(self.world.objects)(self.world.memory).hook
        self.broker = self.world.broker()
        self.log = await self.world.log(self.broker)

    async def publish(self, keys: Sequence[tuple[int | None, bool]]) -> None:
        """One frame; a key of None is a record without key, True a tombstone."""
        first = len(self.published)
        records = [
            Record(first + at, None if key is None else b"k%d" % key, b"", key is not None and gone)
            for at, (key, gone) in enumerate(keys)
        ]
        records = [
            each if each.tombstone else replace(each, payload=b"value %d" % each.offset)
            for each in records
        ]
        now = self.world.clock.wall_us()
        frame = encode_frame(
            Origin("p"),
            first,
            [each.payload for each in records],
            [now + at for at in range(len(records))],
            keys=[each.key for each in records],
            attributes=[
                tombstone_attributes(each.key) if each.tombstone else None for each in records
            ],
        )
        await append(self.log, frame)
        self.published += records
        self.times |= {each.offset: now for each in records}

    async def tier(self) -> None:
        await self.log.roll()
        await self.broker.tiering.round()

    async def compact(self, steps: int) -> None:
        for _ in range(steps):
            if self.log.replacement is not None:  # of a process that died
                await self.broker.merging.merge(self.log)
            if not await self.broker.compacting.step(self.log, POLICY):
                return

    async def compact_until_a_crash(self, calls: int) -> None:
        """Compact in a process that dies at a call of the object store."""
        left = [calls]

        async def stop(moment: str, what: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Stopped

        self.world.objects.hook = stop
        with suppress(Stopped):
            await self.compact(3)
        await self.start()

    async def read(self, offset: int = 0, most: int = 1 << 62) -> list[Record]:
        """What a consumer that starts at ``offset`` gets."""
        reader = self.log.reader(offset)
        found: list[Record] = []
        while len(found) < most and (frames := await reader.read(500)):
            for cached in frames:
                frame = Frame(cached.data)
                for at in range(frame.count):
                    key = None if frame.keys is None else frame.keys[at]
                    payload = frame.payloads[at]
                    attributes = {} if frame.attributes is None else frame.attributes[at]
                    place = cached.base + at
                    gone = key is not None and is_tombstone(payload, attributes)
                    if place >= offset:
                        found.append(Record(place, key, payload, gone))
        return found

    async def check(self) -> None:
        """Everything that a reader may rely on."""
        found = await self.read()
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets)), "in order, none twice"
        assert all(each == self.published[each.offset] for each in found), "unchanged"
        assert state_of(found) == state_of(self.published), "the newest value of each key"
        there = set(offsets)
        newest = {each.key: each for each in self.published}
        for each in self.published:
            if each.key is None or (newest[each.key] is each and not each.tombstone):
                assert each.offset in there, "nothing is lost"
            if each.tombstone and newest[each.key] is each and each.offset not in there:
                age = self.world.clock.wall_us() - self.times[each.offset]
                assert age >= HOUR_MS * 1000, "tombstones have their time"
        cleaned = self.log.compaction.cleaned
        below = [each.key for each in found if each.offset < cleaned and each.key is not None]
        assert len(below) == len(set(below)), "one record of each key below the cleaned offset"
        for start in range(0, len(self.published), 7):
            assert await self.read(start) == [each for each in found if each.offset >= start]


keys = st.tuples(st.none() | st.integers(0, 5), st.booleans())
frames = st.lists(st.lists(keys, min_size=1, max_size=6), min_size=1, max_size=6)
step = st.one_of(
    st.tuples(st.just("publish"), frames),
    st.tuples(st.just("publish and tier"), frames),
    st.tuples(st.just("compact"), st.integers(1, 4)),
    st.tuples(st.just("crash"), st.integers(0, 12)),
    st.tuples(st.just("wait"), st.sampled_from([600.0, 4000.0, 90_000.0])),
)


@settings(
    max_examples=int(os.environ.get("SULINA_EXAMPLES", "8")),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(step, min_size=6, max_size=14))
def test_whatever_happens_in_whatever_order_readers_see_the_newest_of_each_key(
    steps: list[tuple[str, object]],
) -> None:
    asyncio.run(follow(steps))


async def follow(steps: Sequence[tuple[str, object]]) -> None:
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    try:
        for what, how in steps:
            if what.startswith("publish"):
                for frame in how:  # type: ignore[attr-defined]
                    await scene.publish(frame)
                    if what == "publish and tier":
                        await scene.tier()
            elif what == "compact":
                await scene.compact(how)  # type: ignore[arg-type]
            elif what == "crash":
                await scene.compact_until_a_crash(how)  # type: ignore[arg-type]
            else:
                scene.world.clock.move(how)  # type: ignore[arg-type]
                await scene.broker.object_cleanup.round()
        await scene.check()
        await scene.tier()
        await scene.compact(100)
        await scene.check()
        scene.world.clock.move(90_000.0)
        await scene.broker.object_cleanup.round()
        await scene.check()
        named = [key_of(head_of(scene.log.topic, ref)) for ref in scene.log.refs if ref.tiered]
        assert await scene.world.keys() == named, "nothing is left behind"
    finally:
        await scene.world.close()


async def test_a_deleted_key_never_comes_back_when_its_tombstone_goes() -> None:
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    await scene.publish([(1, False), (2, False)])
    await scene.tier()
    await scene.publish([(1, True)])
    for _ in range(3):
        await scene.tier()
        await scene.publish([(3, False)])
    await scene.compact(100)
    assert [each.tombstone for each in await scene.read() if each.key == b"k1"] == [True]
    scene.world.clock.move(4000.0)
    for _ in range(2):
        await scene.publish([(4, False)])
        await scene.tier()
    await scene.compact(100)
    assert not [each for each in await scene.read() if each.key == b"k1"]
    await scene.check()
    await scene.world.close()


async def add_objects(scene: Scene) -> None:
    """Something for the next round; the newest of them is not compacted."""
    for _ in range(2):
        await scene.publish([(4, False)])
        await scene.tier()


async def test_a_reader_between_a_record_and_its_tombstone_gets_the_old_tombstone() -> None:
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    await scene.publish([(1, False)])
    await scene.tier()
    await scene.publish([(1, True)])
    await scene.tier()
    await add_objects(scene)
    scene.world.clock.move(4000.0)  # only the tombstone has to be old, nothing was compacted yet
    seen = await scene.read(most=1)
    await scene.compact(100)
    seen += await scene.read(seen[-1].offset + 1)
    assert b"k1" not in state_of(seen)
    scene.world.clock.move(1800.0)
    await add_objects(scene)
    await scene.compact(100)
    assert [each.tombstone for each in await scene.read() if each.key == b"k1"] == [True]
    scene.world.clock.move(1800.0)
    await add_objects(scene)
    await scene.compact(100)
    assert not [each for each in await scene.read() if each.key == b"k1"]
    for gone in (False, True):
        await scene.publish([(5, gone)])
        await scene.tier()
    await add_objects(scene)
    scene.world.clock.move(4000.0)  # long enough for tombstones that the last round has compared
    await scene.compact(100)
    assert [each.tombstone for each in await scene.read() if each.key == b"k5"] == [True]
    await scene.world.close()


@pytest.mark.parametrize("restored", ["between two rounds", "in a round", "at the end"])
async def test_a_deleted_key_does_not_come_back_with_what_is_restored(restored: str) -> None:
    small = replace(SMALL, tier=replace(SMALL.tier, compact_bytes=1))  # a run for each ledger
    scene = Scene(await make_world(settings=small, row_group_bytes=300))
    await scene.start()
    await scene.publish([(1, False)])
    await scene.tier()
    await scene.publish([(2, False)])
    await scene.tier()
    await scene.publish([(1, True), (2, True)])
    await scene.tier()
    await add_objects(scene)
    await scene.compact(1)
    await scene.log.removal.trim(scene.log.refs[:2], 1 << 60)
    for number in range(3):
        if restored == "in a round" and number == 1:
            await scene.compact(1)
            await scene.log.removal.restore()
        await scene.compact(100)
        if restored == "between two rounds" and number == 0:
            await scene.log.removal.restore()
        scene.world.clock.move(4000.0)
        await add_objects(scene)
    await scene.compact(100)
    if restored == "at the end":
        assert await scene.log.removal.restore()
    assert state_of(await scene.read()) == state_of(scene.published)
    for _ in range(3 * (restored == "at the end")):
        scene.world.clock.move(4000.0)
        await add_objects(scene)
        await scene.compact(100)
    assert state_of(await scene.read()) == state_of(scene.published)
    assert {each.key for each in await scene.read()} == {b"k4"}, "and the tombstones go"
    await scene.world.close()


async def test_topics_may_be_opened_and_closed_while_others_are_compacted() -> None:
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    broker = scene.broker
    opened = await broker.topic(scene.log.topic)
    opened.policy = POLICY
    for _ in range(3):
        await scene.publish([(1, False)])
        await scene.tier()

    async def open_another(moment: str, what: str) -> None:
        await broker.topic(TopicName.parse(f"/default/other-{len(broker.names())}"))

    scene.world.objects.hook = open_another
    await broker.compacting.round()
    assert broker.compacting.counters.objects == 1
    assert len(broker.names()) > 1
    await scene.world.close()


async def test_a_reader_in_the_middle_goes_on_in_the_compacted_objects() -> None:
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    for number in range(30):
        await scene.publish([(number % 4, False), (number % 3, False)])
    await scene.tier()
    seen = await scene.read(most=10)
    await scene.compact(100)
    seen += await scene.read(seen[-1].offset + 1)
    assert state_of(seen) == state_of(scene.published)
    assert scene.broker.compacting.counters.records > 30
    await scene.world.close()


async def test_an_object_without_a_record_left_is_passed_over() -> None:
    scene = Scene(
        await make_world(settings=replace(SMALL, tier=replace(SMALL.tier, compact_bytes=1024)))
    )
    await scene.start()
    for _ in range(20):
        await scene.publish([(1, False)] * 6)
        await scene.log.roll()
    await scene.tier()
    await scene.compact(100)
    assert any(ref.tiered and ref.tiered.records == 0 for ref in scene.log.refs)
    await scene.check()
    await scene.start()
    await scene.check()
    await scene.world.close()


def ledger(number: int, first: int, last: int, size: int = 100, **state: object) -> LedgerRef:
    tiered = TieredRef(size, "d", local=bool(state.get("local")))
    return LedgerRef(
        id=number,
        first_offset=first,
        state=LedgerState.CLOSED,
        last_offset=last,
        bytes=size,
        tiered=tiered,
    )


def test_a_round_never_passes_over_a_ledger_that_is_not_ready() -> None:
    refs = [ledger(1, 0, 9), ledger(2, 10, 19), ledger(3, 20, 29, local=True), ledger(4, 30, 39)]
    assert [ref.id for ref in ready_for_compaction([*refs, ledger(5, 40, 49)])] == [1, 2]
    assert not ready_for_compaction([ledger(1, 0, 9, local=True), *refs[1:]])


def test_what_is_restored_while_objects_are_written_does_not_count_as_compared() -> None:
    refs = tuple(ledger(number, 10 * number, 10 * number + 9) for number in range(4))
    before = LedgerList(ledgers=refs, compaction=CompactionState(until=30)).removing(1, 0, 1 << 60)
    work = Replacement(1, "compact", refs[1].id, 10, 19, until=30)
    after = replace(before, replacing=work).restored().replaced(refs[1])
    assert after.compaction is not None
    assert (after.compaction.start, after.compaction.done) == (10, 20)


def test_rounds_begin_when_enough_was_added() -> None:
    refs = [ledger(1, 0, 9, 1000), ledger(2, 10, 19, 400), ledger(3, 20, 29, 100)]
    assert worth_a_round(refs, 0, 50) and worth_a_round(refs, 10, 50)
    assert not worth_a_round(refs, 20, 50) and not worth_a_round(refs, 30, 50)


@pytest.mark.parametrize(("most", "runs"), [(250, [[1, 2], [3]]), (100, [[1], [2], [3]])])
def test_runs_are_bounded_and_follow_each_other(most: int, runs: list[list[int]]) -> None:
    refs = [ledger(1, 0, 9), ledger(2, 10, 19), ledger(3, 20, 29), ledger(4, 30, 39)]
    state = CompactionState(until=30)
    found: list[list[int]] = []
    while run := next_run(refs, state, most):
        found.append([ref.id for ref in run])
        last = run[-1].last_offset
        assert last is not None
        state = replace(state, done=last + 1)
    assert found == runs
