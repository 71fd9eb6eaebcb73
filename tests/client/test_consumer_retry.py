"""A consumer when connections break: nothing lost, and no more twice than must be."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from sulina.errors import (
    AlreadyExists,
    Fenced,
    NotFound,
    Overloaded,
    Unavailable,
)
from sulina.model import Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, error_body
from tests.client.bench import Bench, frame, until
from tests.client.test_consumer import TOPIC, acked, credit, numbers


async def again(bench: Bench) -> None:
    """Cut the connection, and wait for the next one."""
    subscribed = len(bench.broker.bodies(Command.SUBSCRIBE))
    bench.network.cut()
    await bench.clock.advance(1)
    assert len(bench.broker.bodies(Command.SUBSCRIBE)) == subscribed + 1


async def test_what_was_not_handed_out_is_dropped_and_comes_again(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 5)))
        bench.broker.peer.deliver(frame(5, numbers(5, 5)))
        first = await consumer.receive()
        await consumer.ack(first)
        await again(bench)
        bench.broker.peer.deliver(frame(0, numbers(0, 5)), selection=b"\x1e", attempt=2)
        got = [await consumer.receive() for _ in range(4)]
        assert [message.payload for message in got] == numbers(1, 4)
        assert {message.attempt for message in got} == {2}


async def test_what_was_handed_out_can_still_be_acknowledged(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 3)))
        messages = [await consumer.receive() for _ in range(3)]
        await again(bench)
        await consumer.ack(messages[1])
        await consumer.flush_acks()
        assert acked(bench) == {1}


async def test_unconfirmed_acknowledgements_go_first_over_the_new_connection(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.silent.add(Command.ACK)
        bench.broker.peer.deliver(frame(0, numbers(0, 4)))
        for _ in range(2):
            await consumer.ack(await consumer.receive())
        await bench.clock.advance(0.05)
        assert len(bench.broker.bodies(Command.ACK)) == 1
        await consumer.ack(await consumer.receive())  # not even sent
        bench.broker.silent.clear()
        bench.broker.seen.clear()
        await again(bench)
        order = [incoming.command for incoming in bench.broker.seen]
        assert order[-4:] == [Command.SUBSCRIBE, Command.ACK, Command.ACK, Command.FLOW]
        assert acked(bench) == {0, 1, 2}
        await consumer.flush_acks()


async def test_credit_begins_anew(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s", queue_records=10) as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 4)))
        await consumer.receive()
        bench.broker.seen.clear()
        await again(bench)
        assert credit(bench)[0] == 10


async def test_the_subscription_is_taken_up_under_the_same_name(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await again(bench)
        first, second = bench.broker.bodies(Command.SUBSCRIBE)
        assert first == second
        assert first.consumer == consumer.name


async def test_a_broker_that_lets_a_consumer_go_is_looked_up_again(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        body = pb.ConsumerClosed(consumer=1, error=error_body(Fenced("moved")))
        bench.broker.peer.send(Command.CONSUMER_CLOSED, body)
        await until(lambda: not consumer.active)
        await bench.clock.advance(1)
        assert consumer.active
        bench.broker.peer.deliver(frame(0, [b"x"]))
        assert (await consumer.receive()).payload == b"x"
    assert not bench.broker.bodies(Command.CLOSE_CONSUMER)[:-1]  # it was closed already


async def test_late_answers_of_a_closed_handle_are_ignored(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, [b"x"]))
        await consumer.ack(await consumer.receive())
        bench.broker.silent.add(Command.ACK)
        await bench.clock.advance(0.02)
        (sent,) = (each for each in bench.broker.seen if each.command is Command.ACK)
        closed = pb.ConsumerClosed(consumer=1, error=error_body(Overloaded("a moment")))
        bench.broker.peer.send(Command.CONSUMER_CLOSED, closed)
        late = error_body(NotFound("the consumer is closed"))
        bench.broker.peer.stream.send(Command.ERROR, sent.request, late)
        bench.broker.silent.clear()
        await bench.clock.advance(1)
        await consumer.flush_acks()
        assert len(bench.broker.bodies(Command.ACK)) == 2


async def test_a_refusal_out_of_the_blue_reaches_the_application(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        waiting = asyncio.ensure_future(consumer.receive())
        body = pb.ConsumerClosed(consumer=1, error=error_body(NotFound("the topic was deleted")))
        bench.broker.peer.send(Command.CONSUMER_CLOSED, body)
        with pytest.raises(NotFound, match="was deleted"):
            await waiting
        with pytest.raises(NotFound):
            await consumer.receive()
        with pytest.raises(NotFound):
            await anext(consumer)


async def test_a_former_connection_that_the_broker_holds_alive_is_outwaited(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.answers[Command.SUBSCRIBE] = [AlreadyExists("has a consumer")] * 5
        bench.network.cut()
        await bench.clock.advance(30)
        assert consumer.active


async def test_a_subscription_that_somebody_else_took_is_told(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.answers[Command.SUBSCRIBE] = [AlreadyExists("has a consumer")] * 1000
        bench.network.cut()
        with pytest.raises(AlreadyExists):
            await bench.eventually(consumer.receive(), seconds=60)
        bench.broker.answers.clear()


async def test_a_broker_that_stays_away_is_told_at_last(bench: Bench) -> None:
    client = await bench.client(reconnect_timeout=60)
    async with client.consumer(TOPIC, "s") as consumer:
        bench.network.reachable = False
        bench.network.cut()
        with pytest.raises(Unavailable, match="no broker at"):
            await bench.eventually(consumer.receive(), seconds=100)


async def test_a_broker_that_returns_in_time_goes_unnoticed(bench: Bench) -> None:
    client = await bench.client(reconnect_timeout=60)
    async with client.consumer(TOPIC, "s") as consumer:
        waiting = asyncio.ensure_future(consumer.receive())
        bench.network.reachable = False
        bench.network.cut()
        await bench.clock.advance(40)
        bench.network.reachable = True
        await bench.clock.advance(10)
        bench.broker.peer.deliver(frame(0, [b"x"]))
        assert (await waiting).payload == b"x"


async def test_a_seek_survives_a_lost_connection(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.silent.add(Command.SEEK)
        seeking = asyncio.ensure_future(consumer.seek(Start.earliest()))
        await until(lambda: bool(bench.broker.bodies(Command.SEEK)))
        bench.broker.silent.clear()
        bench.network.cut()
        await bench.eventually(_done(seeking))
        assert len(bench.broker.bodies(Command.SEEK)) == 2
        bench.broker.peer.deliver(frame(0, [b"x"]))
        assert (await consumer.receive()).payload == b"x"


async def _done(task: asyncio.Future[None]) -> None:
    await task


async def test_a_refused_seek_leaves_a_working_consumer(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.answers[Command.SEEK] = [NotFound("no such place")]
        with pytest.raises(NotFound):
            await consumer.seek(Start.offset(-5))
        await bench.clock.advance(1)
        bench.broker.peer.deliver(frame(0, [b"x"]))
        assert (await consumer.receive()).payload == b"x"


async def test_closing_while_the_broker_is_away_does_not_wait(
    bench: Bench, client: sulina.Client
) -> None:
    consumer = await client.consumer(TOPIC, "s").open()
    bench.broker.peer.deliver(frame(0, [b"x"]))
    await consumer.ack(await consumer.receive())
    bench.network.reachable = False
    bench.network.cut()
    await until(lambda: not consumer.active)
    await consumer.close()
