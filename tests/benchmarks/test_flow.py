"""Source and sink: what one gives, the other recognises, and what is wrong is noticed."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cell import Cell, SharedCounters
from benchmarks.loops import run_loops
from benchmarks.sink import RecordSink
from benchmarks.source import STAMP, RecordSource


async def _at_once() -> None:
    return None


async def _all_of(source: RecordSource) -> list[bytes]:
    await source.ready()
    records = [record async for batch in source for record in batch]
    source.acknowledged()
    return records


async def _received(
    given_: Cell, shared: SharedCounters, records: list[bytes], cuts: list[int]
) -> RecordSink:
    sink = RecordSink(given_, shared, _at_once)
    await sink.ready()
    start = 0
    for cut in [*sorted(cuts), len(records)]:
        if cut > start:
            sink.take(records[start:cut])
            start = cut
    return sink


def _limited() -> Cell:
    """Ends by its bytes, long before its seconds."""
    return Cell("sulina", 100, batch=7, seconds=60.0, max_bytes=7000)


async def test_a_full_speed_source_stops_at_its_limit_and_says_the_total_first() -> None:
    shared = SharedCounters()
    source = RecordSource(_limited(), shared, _at_once)
    records = await _all_of(source)
    assert len(records) == shared.total == source.report().sent == 70
    assert {len(record) for record in records} == {100}


async def test_records_that_arrive_in_order_are_all_in_place_however_they_are_cut() -> None:
    shared = SharedCounters()
    records = await _all_of(RecordSource(_limited(), shared, _at_once))
    chance = random.Random(1)
    for _ in range(50):
        cuts = [chance.randrange(len(records)) for _ in range(6)]
        report = (await _received(_limited(), shared, records, cuts)).report()
        assert (report.received, report.misplaced) == (70, 0)


async def test_taking_one_by_one_is_the_same_as_taking_together() -> None:
    shared = SharedCounters()
    records = await _all_of(RecordSource(_limited(), shared, _at_once))
    sink = RecordSink(_limited(), shared, _at_once)
    await sink.ready()
    for record in records:
        assert not sink.done
        sink.take_one(record)
    assert sink.done
    assert sink.report().misplaced == 0


async def test_a_lost_record_is_noticed() -> None:
    shared = SharedCounters()
    records = await _all_of(RecordSource(_limited(), shared, _at_once))
    sink = await _received(_limited(), shared, [*records[:30], *records[31:], records[0]], [])
    assert sink.report().misplaced > 0


async def test_a_paced_source_stamps_each_record_with_the_moment_it_was_due() -> None:
    shared = SharedCounters()
    paced = Cell("sulina", 100, batch=50, seconds=0.05, max_bytes=1 << 20, rate=2000)
    records = await _all_of(RecordSource(paced, shared, _at_once))
    stamps = [STAMP.unpack_from(record) for record in records]
    assert [number for _, number in stamps] == list(range(100))
    first = stamps[0][0]
    # Two fall due with each tick of a millisecond; the first alone is due at the start.
    assert [when - first for when, _ in stamps] == [
        -(-number // 2) * 1_000_000 for number in range(100)
    ]


async def test_records_of_the_warm_up_are_sent_but_not_measured() -> None:
    shared = SharedCounters()
    warmed = Cell("sulina", 100, batch=7, seconds=60.0, max_bytes=7000, warm_up=60.0)
    source = RecordSource(warmed, shared, _at_once)
    records = await _all_of(source)
    report = source.report()
    assert shared.measuring
    assert 0 < report.warm_sent < report.sent == len(records)
    received = (await _received(warmed, shared, records, [])).report()
    assert (received.received, received.misplaced) == (report.sent, 0)


async def test_a_closed_loop_has_one_record_in_flight_per_topic() -> None:
    cell = Cell("sulina", 100, 1, seconds=0.05, max_bytes=1 << 20, loops=3, warm_up=0.01)
    flying = [0] * cell.loops
    most = 0

    async def send(topic: int, payload: bytes) -> None:
        nonlocal most
        flying[topic] += 1
        most = max(most, *flying)
        await asyncio.sleep(0)
        flying[topic] -= 1
        assert len(payload) == cell.size

    milliseconds = count(step=1_000_000)
    senders = [partial(send, topic) for topic in range(3)]
    report = await run_loops(cell, senders, SharedCounters(), lambda: next(milliseconds))
    assert most == 1
    assert len(report.latencies_ns) >= 8 * report.acknowledged > 0


async def test_a_paced_cell_takes_a_latency_for_each_record() -> None:
    shared = SharedCounters()
    paced = Cell("sulina", 100, batch=50, seconds=0.02, max_bytes=1 << 20, rate=1000)
    records = await _all_of(RecordSource(paced, shared, _at_once))
    report = (await _received(paced, shared, records, [5])).report()
    assert len(report.latencies_ns) == 8 * len(records)
    assert report.misplaced == 0


@given(st.integers(1, 10_000_000))
def test_the_shared_numbers_hold_what_was_put_there(number: int) -> None:
    shared = SharedCounters()
    assert (shared.total, shared.received) == (-1, 0)
    shared.total, shared.received = number, number - 1
    assert (shared.total, shared.received) == (number, number - 1)
