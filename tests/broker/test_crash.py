"""A killed broker process: everything acknowledged is there after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import sulina
from sulina import Client, Start
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    log_of,
    look,
    numbered,
    publish,
    read_all,
    take,
)
from tests.support.server import SulinaProcess

TOPIC = "/default/crash"


async def test_what_was_acknowledged_survives_a_kill_and_offsets_go_on(tmp_path: Path) -> None:
    with SulinaProcess(tmp_path / "data") as server:
        async with sulina.connect(server.url) as client:
            await publish(client, TOPIC, numbered(500), batch_records=10, name="meter")
            server.kill()
            await asyncio.to_thread(server.start)
        async with sulina.connect(server.url) as client:
            assert await read_all(client, TOPIC) == numbered(500)
            ids = await publish(client, TOPIC, numbered(5, first=500), name="meter")
            assert [each.offset for each in ids] == list(range(500, 505))
            assert (await log_of(client, TOPIC))["end_offset"] == 505


async def test_a_producer_and_a_consumer_work_on_through_a_kill(tmp_path: Path) -> None:
    with SulinaProcess(tmp_path / "data") as server:
        async with sulina.connect(server.url) as client:
            await _work_through_a_kill(client, server)


async def _work_through_a_kill(client: Client, server: SulinaProcess) -> None:
    async with (
        client.consumer(TOPIC, "s", start=Start.earliest()) as consumer,
        client.producer(TOPIC, batch_records=5) as producer,
    ):
        for payload in numbered(200):
            await producer.send(payload)
        messages = await take(consumer, 200)
        await ack_all(consumer, messages[:100])

        async def stored() -> bool:
            """The cursor lies behind for at most half a second."""
            await asyncio.sleep(0.7)
            return bool((await look(client, TOPIC, "s"))["position"] == 100)

        await eventually(stored)
        await ack_all(consumer, messages[100:150])
        for payload in numbered(200, first=200):
            await producer.send(payload)
        server.kill()
        await asyncio.to_thread(server.start)
        await producer.flush()
        assert await read_all(client, TOPIC) == numbered(400)
        seen: list[int] = []
        while not seen or seen[-1] != 399:
            seen += [int(payload) for payload in bodies(await take(consumer, 1))]
        assert seen == sorted(seen), "in order"
        assert seen[0] >= 100, "what was stored as acknowledged does not come again"
        assert set(range(150, 400)) <= set(seen), "what was not, does"
