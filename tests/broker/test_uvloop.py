"""What depends on the transports of uvloop, which servers use if it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker_containers.broker.settings import BrokerSettings
from sulina import Start
from tests.broker.actions import ack_all, bodies, look, numbered, publish, read_all, take
from tests.broker.cluster import Cluster
from tests.broker.peer import Peer

uvloop = pytest.importorskip("uvloop")

TOPIC = "/default/uv"


def run(tmp_path: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """The scenario with a cluster of its own, broker and client on one uvloop."""

    async def whole() -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        async with Cluster(tmp_path, BrokerSettings(cache_bytes=64 << 10)) as cluster:
            await scenario(cluster)

    uvloop.run(whole())


def test_records_of_every_size_arrive_in_order(tmp_path: Path) -> None:
    payloads = [bytes([number % 256]) * (7**number % 200_003) for number in range(60)]

    async def scenario(cluster: Cluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(TOPIC, "s") as consumer:
                await publish(client, TOPIC, payloads, batch_records=3)
                messages = await take(consumer, len(payloads))
                assert bodies(messages) == payloads
                await ack_all(consumer, messages)
            assert (await look(client, TOPIC, "s"))["backlog"] == 0

    run(tmp_path, scenario)


def test_clients_find_a_restarted_broker_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with cluster.client() as client:
            async with (
                client.producer(TOPIC) as producer,
                client.consumer(TOPIC, "s", start=Start.earliest()) as consumer,
            ):
                for start in (0, 50, 100):
                    for payload in numbered(50, first=start):
                        await producer.send(payload)
                    await cluster.restart()
                await producer.flush()
                seen = [int(message.payload) for message in await take(consumer, 150)]
                assert sorted(set(seen)) == list(range(max(seen) + 1))
            assert await read_all(client, TOPIC) == numbered(150)

    run(tmp_path, scenario)


def test_a_consumer_that_never_reads_its_socket_costs_a_bounded_buffer(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with Peer(cluster.port, small_buffers=True) as stuck, cluster.client() as client:
            await stuck.subscribe(TOPIC, "stuck", records=1 << 30, bytes_=1 << 40)
            await publish(client, TOPIC, [b"." * (256 << 10)] * 80)
            await client.ping()
            (found,) = (await look(client, TOPIC, "stuck"))["consumers"]
            assert found["sent"] < 60, "of eighty"

    run(tmp_path, scenario)
