"""Every process is replaced while clients work: an upgrade, and a cluster that grows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import sulina
from broker_containers.local_cluster.ports import ClusterSize
from sulina import Start
from tests.procedures.machine import Machine, machine

TOPIC = "/default/orders"


class Traffic:
    """A producer and a consumer that go on until told to stop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._going = True
        self.sent = 0
        self.got: set[int] = set()

    async def run(self) -> None:
        async with sulina.connect(self._url) as client, asyncio.TaskGroup() as tasks:
            consuming = tasks.create_task(self._consume(client))
            async with client.producer(TOPIC, name="p") as producer:
                while self._going:
                    await (await producer.send(b"%d" % self.sent))  # raises if it fails
                    self.sent += 1
            while len(self.got) < self.sent:
                await asyncio.sleep(0.05)
            consuming.cancel()

    async def _consume(self, client: sulina.Client) -> None:
        async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
            async for batch in consumer.batches():
                self.got |= {int(bytes(payload)) for payload in batch.payloads}
                await consumer.ack(batch)

    async def some(self, count: int = 20) -> None:
        """Wait until so many more records were consumed."""
        target = len(self.got) + count
        while len(self.got) < target:
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        self._going = False


async def replace_all(here: Machine, traffic: Traffic) -> None:
    """One process after the other, as docs/operations.md says: storage nodes, then brokers."""
    for process in (*here.cluster.storage.values(), *here.cluster.brokers.values()):
        await here.stop([process])
        await traffic.some()
        await here.start([process])
        await traffic.some()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_upgrade_one_process_at_a_time_fails_no_publish_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with machine(tmp_path, ClusterSize(brokers=2, storage=3, etcd=1)) as here:
        traffic = Traffic(here.url)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(traffic.run())
            await traffic.some()
            await replace_all(here, traffic)
            traffic.stop()
        assert traffic.got == set(range(traffic.sent))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_broker_and_a_storage_node_are_added_while_clients_work(tmp_path: Path) -> None:
    counts = ClusterSize(brokers=2, storage=4, etcd=1)
    async with machine(tmp_path, counts, later=("storage-4", "broker-2")) as here:
        traffic = Traffic(here.url)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(traffic.run())
            await traffic.some()
            await here.start([here.cluster.storage["storage-4"]])
            await here.start([here.cluster.brokers["broker-2"]])
            here.sulina("broker", "drain", "broker-1", "--url", here.url)
            await traffic.some()
            where = here.sulina("topic", "lookup", TOPIC, "--url", here.url)
            assert where["broker"] == "broker-2"
            traffic.stop()
        assert traffic.got == set(range(traffic.sent))
