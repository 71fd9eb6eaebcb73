"""Reading without a subscription gives exactly what was asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import sulina
from sulina.errors import Refused
from sulina.model import Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.client.bench import Bench, frame, until

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
