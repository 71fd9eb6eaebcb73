"""Credit: the broker delivers no more than a consumer has asked for."""

from __future__ import annotations

import asyncio

from sulina import Client, Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.broker.actions import bodies, look, numbered, publish, take
from tests.broker.cluster import Cluster
from tests.broker.peer import Peer

TOPIC = "/default/flow"
EARLIEST = Start.earliest()


async def sent(client: Client) -> int:
    found = (await look(client, TOPIC, "s"))["counters"]["delivered"]
    assert isinstance(found, int)
    return found


async def test_no_more_records_are_sent_than_the_consumer_has_room_for(client: Client) -> None:
    await publish(client, TOPIC, numbered(100))
    async with client.consumer(TOPIC, "s", start=EARLIEST, queue_records=10) as consumer:
        first = await consumer.receive(10)
        assert await sent(client) == 10
        assert bodies([first, *await take(consumer, 99)]) == numbered(100)


async def test_no_more_bytes_are_sent_than_the_consumer_has_room_for(client: Client) -> None:
    await publish(client, TOPIC, [b"x" * 1000] * 100)
    async with client.consumer(TOPIC, "s", start=EARLIEST, queue_bytes=10_000) as consumer:
        await consumer.receive(10)
        assert 9 <= await sent(client) <= 11
        assert len(await take(consumer, 99)) == 99


async def test_a_frame_larger_than_all_room_still_comes(client: Client) -> None:
    async with client.producer(TOPIC) as producer:
        await producer.send_many(numbered(500))
        await (await producer.send(b"L" * 500_000))
    async with client.consumer(
        TOPIC, "s", start=EARLIEST, queue_records=10, queue_bytes=1000
    ) as consumer:
        assert bodies(await take(consumer, 500)) == numbered(500)
        assert len((await consumer.receive(10)).payload) == 500_000


async def test_without_credit_nothing_comes_and_with_it_exactly_what_was_granted(
    cluster: Cluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(10))
    async with Peer(cluster.port) as peer:
        body = pb.Subscribe(
            topic=TOPIC, subscription="s", consumer="c", start=pb.Start(earliest=True)
        )
        handle = (await peer.ask(Command.SUBSCRIBE, body, pb.Subscribed)).consumer
        await client.ping()
        assert await sent(client) == 0
        for granted in (3, 2):
            peer.grant(handle, granted)
            for _ in range(granted):
                await peer.next(pb.Deliver)
        await peer.ask(Command.PING, pb.Ping(), pb.Pong)
        assert await sent(client) == 5


async def test_consumers_on_one_connection_have_credit_of_their_own(client: Client) -> None:
    await publish(client, TOPIC, numbered(100))
    async with (
        client.consumer(TOPIC, "stuck", start=EARLIEST, queue_records=3) as stuck,
        client.consumer(TOPIC, "busy", start=EARLIEST) as busy,
    ):
        assert bodies(await take(busy, 100)) == numbered(100)
        assert bodies(await take(stuck, 3)) == numbered(3)


async def test_batches_come_as_they_were_packed(client: Client) -> None:
    await publish(client, TOPIC, numbered(30), batch_records=10)
    async with client.consumer(TOPIC, "s", start=EARLIEST) as consumer:
        batches = [await consumer.receive_batch(10) for _ in range(3)]
        assert [batch.payloads for batch in batches] == [
            numbered(10),
            numbered(10, first=10),
            numbered(10, first=20),
        ]
        assert [list(batch.offsets) for batch in batches][1] == list(range(10, 20))


async def test_messages_and_batches_can_be_mixed(client: Client) -> None:
    await publish(client, TOPIC, numbered(20), batch_records=10)
    async with client.consumer(TOPIC, "s", start=EARLIEST) as consumer:
        assert bodies(await take(consumer, 3)) == numbered(3)
        assert (await consumer.receive_batch(10)).payloads == numbered(7, first=3)
        assert bodies(await take(consumer, 10)) == numbered(10, first=10)


async def test_iteration_ends_when_the_consumer_is_closed(client: Client) -> None:
    consumer = await client.consumer(TOPIC, "s").open()
    seen: list[bytes] = []
    both = asyncio.Event()

    async def follow() -> None:
        async for message in consumer:
            seen.append(message.payload)
            if len(seen) == 2:
                both.set()

    following = asyncio.create_task(follow())
    await publish(client, TOPIC, numbered(2))
    await asyncio.wait_for(both.wait(), 10)
    await consumer.close()
    await following
    assert seen == numbered(2)


async def test_a_consumer_at_the_tail_gets_records_as_they_are_published(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
        for payload in numbered(20):
            published = await (await producer.send(payload))
            message = await consumer.receive(10)
            assert (message.payload, message.offset) == (payload, published.offset)
