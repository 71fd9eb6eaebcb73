"""Three brokers: stock clients are served through any of them, wherever their topic moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest
import pytest_asyncio

from sulina.model import Start
from tests.danube.brokers import DanubeBrokers
from tests.danube.calls import Calls, status_of
from tests.danube.stock import Received, Stock, StockConsumer, StockProducer, flow

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def redirecting() -> AsyncIterator[DanubeBrokers]:
    """Brokers that clients reach each by its own address."""
    async with DanubeBrokers() as brokers:
        await brokers.start("one", "two", "three")
        yield brokers


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def proxied() -> AsyncIterator[DanubeBrokers]:
    """Brokers behind one address."""
    async with DanubeBrokers(proxied=True) as brokers:
        await brokers.start("one", "two", "three")
        yield brokers


async def test_clients_are_sent_to_the_owner_whoever_they_ask(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    for number, name in enumerate(redirecting.running):
        client = await stock.client(redirecting.urls[name])
        topic = f"/default/asked-{name}"
        producer = await client.producer(topic, partitions=2)
        consumer = await client.consumer(topic, "SHARED")
        await flow(producer, consumer, f"{number} first", f"{number} second")


async def test_clients_behind_one_address_are_served_by_owners_elsewhere(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    client = await stock.client(proxied.gateway.url)
    for number in range(3):
        topic = f"/default/behind-{number}"
        producer = await client.producer(topic, reliable=True)
        consumer = await client.consumer(topic, "EXCLUSIVE")
        await flow(producer, consumer, "first", "second")
        await consumer.ack(await again(producer, consumer))


async def again(producer: StockProducer, consumer: StockConsumer) -> Received:
    """A rejected message is redelivered."""
    await producer.send("again")
    first = await consumer.take()
    await consumer.nack(first, reason="not yet")
    second = await consumer.take()
    assert (second.payload, second.offset) == ("again", first.offset)
    return second


async def test_a_planned_move_is_not_noticed_by_the_application(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    topic = "/default/moving"
    client = await stock.client(redirecting.urls["one"])
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await flow(producer, consumer, "before")
    await producer.send("held")
    held = await consumer.take()
    await redirecting.move(topic, await redirecting.other(topic))
    await consumer.ack(held)  # at the old place, for the new one
    await flow(producer, consumer, "after", "and after")
    async with redirecting.client() as native:
        about = await native.admin("subscription.describe", {"topic": topic, "subscription": "s"})
        assert about["backlog"] == 0
        # Nothing of the topic is lost by the move.
        async with native.consumer(topic, "all", start=Start.earliest()) as everything:
            payloads = [(await everything.receive(30)).payload for _ in range(4)]
    assert payloads == [b"before", b"held", b"after", b"and after"]


async def test_a_move_behind_one_address_is_not_noticed_either(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/moving"
    client = await stock.client(proxied.gateway.url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "FAILOVER")
    await flow(producer, consumer, "before")
    for round_ in range(2):
        await proxied.move(topic, await proxied.other(topic))
        await flow(producer, consumer, f"after {round_}")


async def test_a_broker_that_stops_hands_its_clients_over(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/handed-over"
    client = await stock.client(proxied.gateway.url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "SHARED")
    await flow(producer, consumer, "before")
    owner = await proxied.owner(topic)
    await proxied.stop(owner)
    await flow(producer, consumer, "while it is away")
    await proxied.start(owner)
    await flow(producer, consumer, "after")


async def test_a_lost_broker_is_not_noticed_by_applications_behind_one_address(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/lost"
    client = await stock.client(proxied.gateway.url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await flow(producer, consumer, "before")
    owner = await proxied.owner(topic)
    await proxied.lose(owner)
    await flow(producer, consumer, "after")
    await proxied.find(owner)
    await flow(producer, consumer, "and when it is back")


async def test_everything_is_served_on_while_the_metadata_store_is_away(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    topic = "/default/no-store"
    client = await stock.client(redirecting.urls["two"])
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "FAILOVER")
    await flow(producer, consumer, "before")
    for way in redirecting.ways.values():
        way.cut()
    while any(node.membership.lease is not None for node in redirecting.running.values()):
        await asyncio.sleep(0.05)
    await flow(producer, consumer, "while it is away")
    for way in redirecting.ways.values():
        way.mend()
    await flow(producer, consumer, "after")


async def test_a_consumer_that_missed_its_health_check_is_served_from_where_it_asks(
    redirecting: DanubeBrokers,
) -> None:
    """Stock clients give health checks up after one error; then a number is all that is left."""
    topic = "/default/left-behind"
    async with AsyncExitStack() as stack:
        calls = {
            name: await stack.enter_async_context(Calls(url))
            for name, url in redirecting.urls.items()
        }
        await asyncio.gather(*(status_of(each.producer(topic)) for each in calls.values()))
        owner = await redirecting.owner(topic)
        number = await calls[owner].subscribe(topic)
        await redirecting.move(topic, await redirecting.other(topic))
        await calls[await redirecting.owner(topic)].send(topic, b"after")
        message, refused = None, 0
        while message is None:
            try:
                message = await calls[owner].stream(number).read()
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
                refused += 1
        assert message.payload == b"after"
        assert refused  # first it is given the time to find the way by itself
