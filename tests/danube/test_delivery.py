"""Redelivery, where consumers start, and what survives a restart or a change of door."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import grpc
import pytest

import sulina
from sulina.model import FailurePolicy, Poison, Start
from tests.danube.brokers import OneBroker
from tests.danube.calls import Calls
from tests.danube.stock import Stock, StockClient, StockConsumer, StockError, StockProducer
from tests.support.server import SulinaProcess


async def test_messages_of_a_topic_that_is_not_reliable_have_no_offsets(
    broker: OneBroker, topic: str
) -> None:
    async with Calls(broker.url) as calls:
        await calls.producer(topic, reliable=False)
        stream = calls.stream(await calls.subscribe(topic))
        attached = asyncio.create_task(stream.read())
        for number in range(100):
            await calls.send(topic, b"%d" % number)
            if attached.done():
                break
            await asyncio.sleep(0.05)
        first = await attached
        await calls.send(topic, b"another")
        second = await stream.read()
        assert (first.msg_id.topic_offset, second.msg_id.topic_offset) == (0, 0)
        await calls("Ack", msg_id=second.msg_id, subscription_name="s")
        stream.cancel()


async def test_a_message_expires_by_an_attribute(broker: OneBroker, topic: str) -> None:
    async with Calls(broker.url) as calls:
        await calls.producer(topic)
        consumer = await calls.subscribe(topic)
        await calls.send(topic, b"short", attributes={"x-expires-ms": "1"})
        await calls.send(topic, b"long", attributes={"x-expires-ms": "3600000"})
        with pytest.raises(grpc.aio.AioRpcError, match="whole number of milliseconds"):
            await calls.send(topic, b"x", attributes={"x-expires-ms": "soon"})
        stream = calls.stream(consumer)
        assert (await stream.read()).payload == b"long"
        stream.cancel()


async def test_a_new_subscription_begins_at_the_end_and_misses_nothing_from_then_on(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    await producer.send("before")
    consumer = await client.consumer(topic, receive=False)
    await producer.send("after")
    await consumer.receive()
    assert (await consumer.take()).payload == "after"


async def test_a_subscription_goes_on_where_it_was(client: StockClient, topic: str) -> None:
    producer = await client.producer(topic)
    first = await client.consumer(topic, "SHARED", "first")
    for number in range(6):
        await producer.send(str(number))
    taken = [await first.take() for _ in range(6)]
    for message in (taken[4], taken[0], taken[2]):  # in any order
        await first.ack(message)
    await first.close()
    second = await client.consumer(topic, "SHARED", "second")
    assert [message.payload for message in await second.take_all(3)] == ["1", "3", "5"]
    assert await second.nothing()


async def test_a_message_given_back_comes_again_after_its_delay_with_the_same_offset(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    producer = await client.producer(topic)
    quick = FailurePolicy(base_redelivery_delay_ms=100)
    await make_subscription(broker, topic, quick)
    consumer = await client.consumer(topic, "SHARED")
    await producer.send("one")
    first = await consumer.take()
    began = time.monotonic()
    await consumer.nack(first)
    second = await consumer.take()
    assert second.offset == first.offset
    await consumer.nack(second, delay_ms=1500, reason="later")
    third = await consumer.take()
    assert third.offset == first.offset
    assert time.monotonic() - began >= 1.5
    await consumer.ack(third)
    assert await consumer.nothing()


async def make_subscription(broker: OneBroker, topic: str, policy: FailurePolicy) -> None:
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "s", type="shared", failure_policy=policy),
    ):
        pass


async def test_a_message_that_is_not_acknowledged_in_time_comes_again(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    producer = await client.producer(topic)
    await make_subscription(broker, topic, FailurePolicy(ack_timeout_ms=300))
    consumer = await client.consumer(topic, "SHARED")
    await producer.send("slow")
    first = await consumer.take()
    second = await consumer.take()
    assert second.offset == first.offset
    await consumer.ack(first)  # late, and good all the same
    await producer.send("next")
    while (message := await consumer.take()).payload != "next":
        assert message.offset == first.offset


async def test_what_fails_too_often_goes_to_the_dead_letter_topic(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    letters = f"{topic}-letters"
    grave = await (await client_of_letters(client, letters)).consumer(letters, "SHARED", "grave")
    producer = await client.producer(topic)
    policy = FailurePolicy(
        max_redelivery_count=1,
        base_redelivery_delay_ms=20,
        poison=Poison.DEAD_LETTER,
        dead_letter_topic=letters,
    )
    await make_subscription(broker, topic, policy)
    consumer = await client.consumer(topic, "SHARED")
    await producer.send("poison", {"kept": "yes"}, key="k")
    for _ in range(2):
        await consumer.nack(await consumer.take(), reason="can't be read")
    buried = await grave.take()
    assert (buried.payload, buried.key) == ("poison", "k")
    assert buried.attributes["kept"] == "yes"
    assert buried.attributes["x-original-topic"] == topic
    assert buried.attributes["x-failure-reason"] == "can't be read"


async def client_of_letters(client: StockClient, letters: str) -> StockClient:
    await client.producer(letters)  # makes the topic
    return client


async def test_more_messages_than_a_consumer_may_have_flow_as_it_acknowledges(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE", receive=False)
    payloads = [f"{number:04}" for number in range(300)]  # 256 are the most
    await producer.send_all(payloads)
    await consumer.receive()
    received = await consumer.take_all(300)
    assert sorted(message.payload for message in received) == payloads
    offsets = [message.offset for message in received]
    assert offsets == sorted(offsets)
    assert await consumer.nothing(0.1)


async def test_a_consumer_that_acknowledges_nothing_gets_it_all_again(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    """What timed out must not count as unacknowledged for ever: then nothing would come."""
    producer = await client.producer(topic)
    await make_subscription(broker, topic, FailurePolicy(ack_timeout_ms=500))
    consumer = await client.consumer(topic, "SHARED")
    await producer.send_all([str(number) for number in range(300)])
    seen: set[int] = set()
    while len(seen) < 300:
        message = await consumer.take()
        seen.add(message.offset)
        if message.offset % 3 == 0:
            await consumer.ack(message)


async def test_consumers_that_come_and_go_lose_nothing(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    producer = await client.producer(topic)
    await make_subscription(broker, topic, FailurePolicy(base_redelivery_delay_ms=10))
    sending = asyncio.create_task(producer.send_all([str(number) for number in range(150)]))
    done: set[int] = set()
    round_ = 0
    while len(done) < 150:
        round_ += 1
        consumer = await client.consumer(topic, "SHARED", f"c{round_ % 3}")
        for turn in range(60):
            message = await consumer.take_or_none(0.2)
            if message is None:
                break  # what it holds is redelivered when it leaves
            if turn % 7 == round_ % 7:
                await consumer.nack(message)
            elif turn % 5:
                await consumer.ack(message)
                done.add(int(message.payload))
        await consumer.close()
    await sending
    async with sulina.connect(broker.native_url) as native:
        about = await native.admin("subscription.describe", {"topic": topic, "subscription": "s"})
    assert about["backlog"] == 0


async def test_a_large_native_batch_is_shared_between_stock_consumers(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    await client.producer(topic)
    consumers = [await client.consumer(topic, "SHARED", f"c{number}") for number in range(2)]
    payloads = [f"{number:04}".encode() for number in range(600)]
    async with (
        sulina.connect(broker.native_url) as native,
        native.producer(topic) as producer,
    ):
        await (await producer.send_many(payloads))
    shares: list[list[str]] = [[], []]
    whole = asyncio.Event()

    async def take(consumer: StockConsumer, share: list[str]) -> None:
        while True:
            message = await consumer.take()
            await consumer.ack(message)
            share.append(message.payload)
            if sum(map(len, shares)) == len(payloads):
                whole.set()

    taking = [asyncio.create_task(take(*each)) for each in zip(consumers, shares, strict=True)]
    await whole.wait()
    for task in taking:
        task.cancel()
    assert sorted(payload.encode() for share in shares for payload in share) == payloads
    assert all(shares)


async def test_what_a_stock_client_publishes_a_native_one_consumes(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    producer = await client.producer(topic, "stock")
    began_ms = int(time.time() * 1000) - 1
    await producer.send("with a key", {"a": "1", "b": "2"}, key="k")
    await producer.send("plain")
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "native", start=Start.earliest()) as consumer,
    ):
        first, second = await consumer.receive(30), await consumer.receive(30)
    assert (first.payload, first.key, first.attributes) == (
        b"with a key",
        b"k",
        {"a": "1", "b": "2"},
    )
    assert (second.payload, second.key, second.attributes) == (b"plain", None, {})
    assert first.producer == "stock"
    assert began_ms <= first.publish_time_us // 1000 <= int(time.time() * 1000)


async def test_what_a_native_client_publishes_a_stock_one_consumes(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    async with (
        sulina.connect(broker.native_url) as native,
        native.producer(
            topic, name="native", schema_id=7, schema_version=2, compression="zstd"
        ) as producer,
    ):
        consumer = await client.consumer(topic, "EXCLUSIVE")
        ticket = await producer.send_many(
            [b"one", b"two"],
            keys=[b"k", None],
            attributes=[{"a": "1"}, None],
            publish_time_us=1_700_000_000_123_456,
        )
        await ticket
    one, two = await consumer.take_all(2)
    assert (one.payload, one.key, one.attributes) == ("one", "k", {"a": "1"})
    assert (two.payload, two.key, two.attributes) == ("two", None, {})
    assert one.publish_time == 1_700_000_000_123
    assert (one.producer, one.schema) == ("native", [7, 2])
    assert [one.offset, two.offset] == [0, 1]


async def test_a_message_too_large_for_stock_clients_is_given_back_for_them(
    client: StockClient, broker: OneBroker, topic: str
) -> None:
    await client.producer(topic)
    policy = FailurePolicy(max_redelivery_count=0, base_redelivery_delay_ms=10, poison=Poison.DROP)
    await make_subscription(broker, topic, policy)
    consumer = await client.consumer(topic, "SHARED")
    async with (
        sulina.connect(broker.native_url) as native,
        native.producer(topic) as producer,
    ):
        await (await producer.send(bytes(5 << 20)))
        await (await producer.send(b"small"))
    assert (await consumer.take()).payload == "small"


async def test_a_producer_is_told_why_its_message_is_refused(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    with pytest.raises(StockError, match=r"INVALID_ARGUMENT.*over the limit"):
        await producer.send("x" * (5 << 20))
    await producer.send("and goes on")


async def send_until_taken(producer: StockProducer, payload: str) -> None:
    """The client gives up when its only broker is away for more than two seconds; an application
    that wants more tries again, with the same producer."""
    while True:
        try:
            await producer.send(payload)
            return
        except StockError as error:
            if error.code != "UNAVAILABLE":
                raise


async def take_until(consumer: StockConsumer, payload: str) -> list[str]:
    """Take and acknowledge until this one came; all that came."""
    taken = []
    while payload not in taken:
        message = await consumer.take(60)
        await consumer.ack(message)
        taken.append(message.payload)
    return taken


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SulinaProcess]:
    with SulinaProcess(tmp_path_factory.mktemp("restarted") / "data") as running:
        yield running


async def test_clients_go_on_after_a_crash(stock: Stock, server: SulinaProcess, topic: str) -> None:
    client = await stock.client(f"http://127.0.0.1:{server.grpc_port}")
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await producer.send("before")
    assert await take_until(consumer, "before") == ["before"]
    await producer.send("stored")
    held = await consumer.take()
    server.kill()
    sending = asyncio.create_task(send_until_taken(producer, "after"))
    await asyncio.to_thread(server.start)
    await sending
    taken = await take_until(consumer, "after")
    # What was not acknowledged comes once more; the cursor may be half a second old as well.
    assert taken[-2:] == [held.payload, "after"] == ["stored", "after"]
    assert "Traceback" not in server.log()


@pytest.mark.slow
async def test_a_consumer_survives_an_outage_longer_than_its_health_checks(
    stock: Stock, server: SulinaProcess, topic: str
) -> None:
    """After one failed health check the client never subscribes again: its number must do."""
    client = await stock.client(f"http://127.0.0.1:{server.grpc_port}")
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "SHARED")
    await producer.send("before")
    await take_until(consumer, "before")
    server.kill()
    await asyncio.sleep(5.5)  # they come every 5 seconds
    await asyncio.to_thread(server.start)
    await send_until_taken(producer, "after")
    assert (await take_until(consumer, "after"))[-1] == "after"
