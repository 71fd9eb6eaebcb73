"""Acknowledgements are few and exact; reading without a subscription gives what was asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sulina
from sulina.client.acks import Acks
from sulina.errors import Refused
from sulina.model import Start
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import Command
from sulina.wire.header import MAX_RECORDS
from tests.client.bench import Bench, frame, until

steps = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.integers(0, 200_000), st.just(0)),
        st.tuples(st.just("near"), st.integers(0, 300), st.just(0)),
        st.tuples(st.just("whole"), st.integers(0, 200_000), st.integers(1, 100)),
        st.tuples(st.just("part"), st.integers(0, 200_000), st.integers(1, 1 << 70)),
    ),
    max_size=40,
)


def offsets_of(acks: list[pb.Ack]) -> set[int]:
    offsets: set[int] = set()
    for ack in acks:
        assert not ack.cumulative
        for part in ack.selections:
            named = set(range(part.first, part.last + 1))
            if part.mask:
                assert len(part.mask) <= MAX_RECORDS // 8
                mask = selection.from_bytes(part.mask)
                named &= {part.first + index for index in selection.indices(mask)}
            offsets |= named
    return offsets


@given(steps)
def test_what_is_sent_is_what_was_acknowledged(steps: list[tuple[str, int, int]]) -> None:
    acks, expected = Acks(), set[int]()
    for kind, at, more in steps:
        match kind:
            case "one" | "near":
                acks.one(at)
                expected.add(at)
            case "whole":
                acks.whole(at, at + more - 1)
                expected |= set(range(at, at + more))
            case _:
                acks.part(at, more)
                expected |= {at + index for index in selection.indices(more)}
    assert bool(acks) == bool(expected)
    assert offsets_of(acks.take()) == expected
    assert not acks
    assert acks.take() == []


def test_batches_that_follow_on_each_other_become_one_range() -> None:
    acks = Acks()
    for start in range(0, 100_000, 1000):
        acks.whole(start, start + 999)
    (ack,) = acks.take()
    assert [(part.first, part.last) for part in ack.selections] == [(0, 99_999)]


def test_single_records_in_order_become_one_range() -> None:
    acks = Acks()
    for offset in range(5, 500):
        acks.one(offset)
    (ack,) = acks.take()
    assert [(part.first, part.last) for part in ack.selections] == [(5, 499)]


def test_scattered_records_share_a_mask() -> None:
    acks = Acks()
    for offset in range(1000, 3000, 2):
        acks.one(offset)
    (ack,) = acks.take()
    (part,) = ack.selections
    assert (part.first, part.last) == (1000, 2998)
    assert len(part.mask) == 250


def test_a_position_is_sent_before_what_lies_beyond_it() -> None:
    acks = Acks()
    acks.one(20)
    acks.up_to(5)
    acks.up_to(7)
    position, single = acks.take()
    assert position.cumulative
    assert position.selections[0].last == 7
    assert single.selections[0].first == 20


def test_a_lower_position_after_a_higher_one_is_sent_too_since_it_came_later() -> None:
    acks = Acks()
    for last in (100, 5, 6, 90, 3):
        acks.up_to(last)
    assert [ack.selections[0].last for ack in acks.take() if ack.cumulative] == [100, 90, 3]
    assert not acks


def test_a_command_has_a_bounded_number_of_selections() -> None:
    acks = Acks()
    for number in range(2000):
        acks.part(number * 70_000, 0b101)
    commands = acks.take()
    assert len(commands) > 1
    assert all(len(command.selections) <= 512 for command in commands)


TOPIC = "/default/t"


async def read(
    bench: Bench, client: sulina.Client, frames: list[bytes], answer: pb.FramesRead, **how: Any
) -> sulina.ReadResult:
    """One read, answered with these frames."""
    bench.broker.silent.add(Command.READ_FRAMES)
    reading = asyncio.ensure_future(client.read(TOPIC, **how))
    await until(lambda: bool(bench.broker.bodies(Command.READ_FRAMES)))
    (asked,) = (each for each in bench.broker.seen if each.command is Command.READ_FRAMES)
    bench.broker.peer.stream.send(Command.FRAMES_READ, asked.request, answer, *frames)
    return await reading


def offsets(result: sulina.ReadResult) -> list[int]:
    return [message.offset for batch in result for message in batch]


TWO = [frame(10, [b"x"] * 5), frame(15, [b"y"] * 5)]
ALL = pb.FramesRead(next_offset=20, at_end=True)


async def test_everything_that_came_is_given(bench: Bench, client: sulina.Client) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.earliest())
    assert offsets(result) == [*range(10, 20)]
    assert (result.next_offset, result.at_end, len(result)) == (20, True, 10)


async def test_a_frame_that_begins_too_early_is_cut(bench: Bench, client: sulina.Client) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.offset(13))
    assert offsets(result) == [*range(13, 20)]


async def test_no_more_records_than_asked_for(bench: Bench, client: sulina.Client) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.offset(12), max_records=5)
    assert offsets(result) == [*range(12, 17)]
    assert (result.next_offset, result.at_end) == (17, False)


async def test_a_read_that_ends_with_a_frame_goes_on_behind_it(
    bench: Bench, client: sulina.Client
) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.earliest(), max_records=5)
    assert offsets(result) == [*range(10, 15)]
    assert (result.next_offset, result.at_end) == (15, False)


async def test_reading_from_a_time_leaves_out_what_is_older(
    bench: Bench, client: sulina.Client
) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.time(1_000_001))
    assert offsets(result) == []
    assert result.next_offset == 20


async def test_what_was_read_can_not_be_acknowledged(bench: Bench, client: sulina.Client) -> None:
    result = await read(bench, client, TWO, ALL, start=Start.earliest())
    async with client.consumer(TOPIC, "s") as consumer:
        with pytest.raises(Refused):
            await consumer.ack(result.batches[0])


async def test_a_partitioned_topic_is_read_by_its_parts(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.partitions[TOPIC] = 2
    with pytest.raises(Refused, match="/default/t-part-0"):
        await client.read(TOPIC, Start.earliest())
    info = await client.topic(TOPIC)
    assert info.partitions == ("/default/t-part-0", "/default/t-part-1")
