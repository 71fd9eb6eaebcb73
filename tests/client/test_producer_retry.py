"""A producer when connections break and brokers fail: nothing lost, nothing twice, in order."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from sulina.errors import (
    Fenced,
    NotFound,
    Overloaded,
    Refused,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, error_body
from sulina.wire.decode import Frame
from tests.client.bench import Bench, until

TOPIC = "/default/t"


def stored(bench: Bench) -> list[bytes]:
    frames = bench.broker.stored.get(TOPIC, [])
    return [payload for data in frames for payload in Frame(data).payloads]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_after_a_lost_connection_everything_open_is_sent_again_in_order(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: None if number < 3 else "silence"
    async with client.producer(TOPIC, batch_records=10, linger_ms=0) as producer:
        ticket = await producer.send_many(numbers(100))
        await until(lambda: len(stored(bench)) == 100)
        bench.network.cut()
        bench.broker.publishing = lambda number: None
        # It was stored before the cut, so its place is not known; but stored it is, once.
        assert await bench.eventually(_id(ticket)) == sulina.MessageId(TOPIC, -1)
        await producer.send(b"more")
        await producer.flush()
    assert stored(bench) == [*numbers(100), b"more"]


async def _id(ticket: sulina.Ticket) -> sulina.MessageId:
    return await ticket


async def test_a_resent_frame_is_the_same_bytes(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC) as producer:
        await producer.send(b"x", key="k")
        await until(lambda: bool(stored(bench)))
        bench.network.cut()
        bench.broker.publishing = lambda number: None
        await bench.eventually(producer.flush())
    first, second = (
        bytes(incoming.data)
        for incoming in bench.broker.seen
        if incoming.command is Command.PUBLISH
    )
    assert first == second


async def test_sends_go_on_while_the_broker_is_away(bench: Bench, client: sulina.Client) -> None:
    async with client.producer(TOPIC, batch_records=7) as producer:
        await producer.send_many(numbers(10))
        await producer.flush()
        bench.network.reachable = False
        bench.network.cut()
        await producer.send_many(numbers(20))
        await bench.clock.advance(10)
        bench.network.reachable = True
        await bench.eventually(producer.flush())
    assert stored(bench) == numbers(10) + numbers(20)


@pytest.mark.parametrize(
    "error",
    [StorageFull("full"), Overloaded("busy"), Fenced("moved"), UnknownOutcome("who knows")],
)
async def test_a_failure_that_passes_is_tried_again_from_that_frame_on(
    bench: Bench, client: sulina.Client, error: SulinaError
) -> None:
    failing = True
    bench.broker.publishing = lambda number: error if failing and number >= 2 else None
    async with client.producer(TOPIC, batch_records=10) as producer:
        tickets = [await producer.send_many(numbers(10)) for _ in range(5)]
        await until(lambda: len(stored(bench)) == 20)
        await bench.clock.advance(5)
        failing = False
        await bench.eventually(producer.flush())
        assert [(await ticket).offset for ticket in tickets] == [9, 19, 29, 39, 49]
    assert stored(bench) == numbers(10) * 5


async def test_a_refused_frame_fails_alone(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: TooLarge("over the limit") if number == 1 else None
    async with client.producer(TOPIC, batch_records=1) as producer:
        tickets = [await producer.send(payload) for payload in numbers(3)]
        assert await tickets[0] == sulina.MessageId(TOPIC, 0)
        with pytest.raises(TooLarge, match="over the limit"):
            await tickets[1]
        assert await tickets[2] == sulina.MessageId(TOPIC, 1)
        await producer.flush()  # its ticket has told the error


async def test_flush_raises_an_error_that_no_ticket_has_raised(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: Refused("no") if number == 0 else None
    producer = await client.producer(TOPIC, batch_records=1).open()
    await producer.send(b"x")
    with pytest.raises(Refused, match="no"):
        await producer.flush()
    await producer.send(b"y")
    await producer.close()


async def test_leaving_the_block_raises_the_error_too(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: Refused("not here")
    with pytest.raises(Refused, match="not here"):
        async with client.producer(TOPIC) as producer:
            await producer.send(b"x")


async def test_the_applications_own_error_comes_first(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: Refused("not here")

    async def use() -> None:
        async with client.producer(TOPIC) as producer:
            await producer.send(b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use()


async def test_a_ticket_of_many_fails_if_any_of_them_failed(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: Refused("no") if number == 1 else None
    async with client.producer(TOPIC, batch_records=2) as producer:
        ticket = await producer.send_many(numbers(6))
        with pytest.raises(Refused, match="no"):
            await ticket
        await until(ticket.done)
    assert stored(bench) == [b"0", b"1", b"4", b"5"]


# ---- giving up ----


async def test_what_was_sent_and_never_acknowledged_has_an_unknown_outcome(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, send_timeout=20) as producer:
        ticket = await producer.send(b"x")
        await bench.clock.advance(19)
        assert not ticket.done()
        await bench.clock.advance(3)
        with pytest.raises(UnknownOutcome, match="may or may not be stored"):
            await ticket


async def test_what_was_surely_not_taken_says_why(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: StorageFull("the disk is full")
    async with client.producer(TOPIC, send_timeout=20) as producer:
        ticket = await producer.send(b"x")
        await bench.clock.advance(40)
        with pytest.raises(StorageFull, match="the disk is full"):
            await ticket


async def test_after_a_time_out_the_producer_goes_on(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, send_timeout=20) as producer:
        lost = await producer.send(b"lost")
        await bench.clock.advance(25)
        bench.broker.publishing = lambda number: None
        ticket = await producer.send(b"next")
        assert (await bench.eventually(_id(ticket))).offset == 1
        with pytest.raises(UnknownOutcome):
            await lost


async def test_bytes_of_what_was_given_up_are_free_again(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC, send_timeout=5, max_pending_bytes=1000) as producer:
        bench.network.reachable = False
        bench.network.cut()
        await until(lambda: not bench.network.links)
        lost = await producer.send(bytes(2000))
        waiting = asyncio.ensure_future(producer.send(b"next"))
        await bench.clock.advance(10)
        assert waiting.done()
        with pytest.raises(Unavailable):
            await lost
        bench.network.reachable = True
        await bench.eventually(producer.flush())
        assert (await (await waiting)).offset == 0


async def test_a_producer_that_can_not_return_says_so(bench: Bench, client: sulina.Client) -> None:
    client = await bench.client(reconnect_timeout=60)
    producer = await client.producer(TOPIC).open()
    bench.network.reachable = False
    bench.network.cut()
    await bench.clock.advance(120)
    with pytest.raises(Unavailable, match="no broker at"):
        await producer.send(b"x")
    await producer.close()


async def test_abandoning_fails_what_is_open(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: "silence"
    producer = await client.producer(TOPIC).open()
    ticket = await producer.send(b"x")
    await until(lambda: bool(stored(bench)))
    await producer.abandon()
    with pytest.raises(UnknownOutcome, match="closed"):
        await ticket


# ---- what a broker may do unasked ----


async def test_a_broker_that_lets_a_producer_go_is_looked_up_again(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        body = pb.ProducerClosed(producer=1, error=error_body(Fenced("moved")))
        bench.broker.peer.send(Command.PRODUCER_CLOSED, body)
        await producer.send(b"x")
        await bench.eventually(producer.flush())
    assert len(bench.broker.bodies(Command.CREATE_PRODUCER)) == 2
    assert stored(bench) == [b"x"]


async def test_a_refusal_out_of_the_blue_reaches_the_application(
    bench: Bench, client: sulina.Client
) -> None:
    producer = await client.producer(TOPIC).open()
    body = pb.ProducerClosed(producer=1, error=error_body(NotFound("the topic was deleted")))
    bench.broker.peer.send(Command.PRODUCER_CLOSED, body)
    for _ in range(10):
        await asyncio.sleep(0)
    with pytest.raises(NotFound, match="was deleted"):
        await producer.send(b"x")
    await producer.close()


async def test_another_producer_of_the_same_name_is_noticed(
    bench: Bench, client: sulina.Client
) -> None:
    producer = await client.producer(TOPIC, name="twin").open()
    await (await producer.send(b"x"))
    for key in bench.broker.last_sequence:
        bench.broker.last_sequence[key] = 99
    bench.network.cut()
    await bench.clock.advance(1)
    with pytest.raises(Refused, match="another producer named 'twin'"):
        await producer.send(b"y")
    await producer.close()


async def test_a_topic_that_lives_elsewhere_is_dialled_there(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.urls[TOPIC] = "sulina://other:7000"
    async with client.producer(TOPIC) as producer:
        await (await producer.send(b"x"))
    assert bench.network.dials == [("broker", 6655, False), ("other", 7000, False)]


async def test_opening_waits_for_a_broker_that_is_not_ready(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.answers[Command.CREATE_PRODUCER] = [Overloaded("a moment")] * 3
    producer = await bench.eventually(client.producer(TOPIC).open())
    await (await producer.send(b"x"))


async def test_opening_raises_what_the_broker_refuses(bench: Bench, client: sulina.Client) -> None:
    bench.broker.answers[Command.LOOKUP] = [NotFound("there is no such topic")]
    with pytest.raises(NotFound):
        await client.producer(TOPIC, create=False).open()


async def test_opening_does_not_wait_for_ever(bench: Bench, client: sulina.Client) -> None:
    bench.broker.silent.add(Command.CREATE_PRODUCER)
    with pytest.raises(Unavailable, match="did not answer in 30 s"):
        await bench.eventually(client.producer(TOPIC).open(), seconds=90)


async def test_an_answer_that_comes_too_late_is_undone(bench: Bench, client: sulina.Client) -> None:
    bench.broker.silent.add(Command.CREATE_PRODUCER)
    opening = asyncio.ensure_future(client.producer(TOPIC).open())
    await until(lambda: bool(bench.broker.bodies(Command.CREATE_PRODUCER)))
    (asked,) = (each for each in bench.broker.seen if each.command is Command.CREATE_PRODUCER)
    opening.cancel()
    await asyncio.wait((opening,))
    late = pb.ProducerCreated(producer=77, last_sequence=-1)
    bench.broker.peer.stream.send(Command.PRODUCER_CREATED, asked.request, late)
    await until(lambda: bool(bench.broker.bodies(Command.CLOSE_PRODUCER)))
    assert bench.broker.bodies(Command.CLOSE_PRODUCER)[0].producer == 77


# ---- at most once ----


async def test_a_non_reliable_topic_gets_nothing_twice(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, delivery="non_reliable", batch_records=1) as producer:
        doubtful = await producer.send(b"doubtful")
        await until(lambda: stored(bench) == [b"doubtful"])
        bench.network.reachable = False
        bench.network.cut()
        waiting = await producer.send(b"never sent")
        bench.network.reachable = True
        bench.broker.publishing = lambda number: None
        await bench.eventually(_id(waiting))
        with pytest.raises(UnknownOutcome):
            await doubtful
    assert stored(bench) == [b"doubtful", b"never sent"]


# ---- a peer that does not read ----


async def test_a_broker_that_does_not_read_is_not_flooded(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        (link,) = bench.network.links
        link.stuck = True
        sending = asyncio.ensure_future(producer.send_many([bytes(10_000)] * 2000))
        for _ in range(500):
            await asyncio.sleep(0)
        assert len(link._buffer) < 4 << 20
        link.unstick()
        await until(sending.done)
        await producer.flush()
    assert len(stored(bench)) == 2000
