"""Stock clients continue by themselves when their broker crashes or restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.danube.stock import Stock, StockConsumer, StockError, StockProducer
from tests.support.server import SulinaProcess


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
