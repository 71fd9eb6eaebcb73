"""What an operator does: restores lost metadata or storage, upgrades, grows the cluster."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

import sulina
from broker_containers.local_cluster.ports import ClusterSize
from sulina import Start
from tests.procedures.machine import Machine, everything, machine, publish

OLD, NEW, PARTED = "/default/old", "/default/new", "/default/parted"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_with_an_older_copy_and_a_rebuild_nothing_acknowledged_is_missing(
    tmp_path: Path,
) -> None:
    async with machine(tmp_path, ClusterSize(brokers=1, storage=3, etcd=1)) as here:
        await publish(here.url, OLD, range(50))
        here.back_up(tmp_path / "copy.db")
        await publish(here.url, OLD, range(50, 120))
        here.sulina("topic", "create", PARTED, "--partitions", "2", "--url", here.url)
        await publish(here.url, f"{PARTED}-part-1", range(7))
        await publish(here.url, NEW, range(30))

        here.kill(here.cluster.brokers.values())
        here.lose_etcd()
        here.restore(tmp_path / "copy.db")
        await here.start(here.cluster.etcd.values())
        command = ("cluster", "rebuild", "--etcd", here.etcd_url, *here.nodes)
        planned = here.sulina(*command, "--dry-run")
        done = here.sulina(*command)
        outcomes = {row["topic"]: row["outcome"] for row in done["topics"]}
        assert outcomes[OLD] == outcomes[NEW] == outcomes[f"{PARTED}-part-1"] == "rebuilt"
        assert {row["topic"] for row in planned["topics"]} == set(outcomes)

        await here.start(here.cluster.brokers.values())
        assert await everything(here.url, OLD) == list(range(120))
        assert await everything(here.url, NEW) == list(range(30))
        assert await everything(here.url, f"{PARTED}-part-1") == list(range(7))
        # The same producer goes on: what it sent before is known, and nothing is in the way.
        await publish(here.url, OLD, range(120, 140))
        assert (await everything(here.url, OLD))[-20:] == list(range(120, 140))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_without_any_copy_topics_are_made_anew_from_what_nodes_hold(tmp_path: Path) -> None:
    async with machine(tmp_path, ClusterSize(brokers=1, storage=3, etcd=1)) as here:
        await publish(here.url, OLD, range(80))
        rebuild = ("cluster", "rebuild", "--etcd", here.etcd_url, *here.nodes)
        here.kill(here.cluster.brokers.values())
        here.lose_etcd()
        await here.start(here.cluster.etcd.values())
        # One node is lost for good as well: two have what was acknowledged.
        *_, gone = here.cluster.storage.values()
        here.kill([gone])
        assert here.sulina(*rebuild[:-1])["topics"][0]["end"] == 80
        again = here.sulina(*rebuild[:-1])
        assert {row["outcome"] for row in again["topics"]} == {"unchanged"}

        await here.start(here.cluster.brokers.values())
        assert await everything(here.url, OLD) == list(range(80))
        await publish(here.url, OLD, range(80, 90))
        assert await everything(here.url, OLD) == list(range(90))


TOPIC = "/default/orders"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_is_in_objects_outlives_all_storage_nodes(tmp_path: Path) -> None:
    tier = f"file://{tmp_path / 'lake'}"
    counts = ClusterSize(brokers=1, storage=3, etcd=1)
    async with machine(tmp_path / "cluster", counts, storage=("--tier", tier)) as here:
        await publish(here.url, TOPIC, range(100))
        here.sulina("ledger", "offload", TOPIC, "--wait", "--url", here.url)
        await publish(here.url, TOPIC, range(100, 110))  # in no object yet

        here.kill([*here.cluster.brokers.values(), *here.cluster.storage.values()])
        for name in here.cluster.storage:
            shutil.rmtree(here.cluster.folder / "storage" / name)
        await here.start(here.cluster.storage.values())
        command = ("cluster", "rebuild", "--etcd", here.etcd_url, *here.nodes, "--tier", tier)
        done = {row["topic"]: row for row in here.sulina(*command)["topics"]}
        assert done[TOPIC]["outcome"] == "rebuilt"

        await here.start(here.cluster.brokers.values())
        assert await everything(here.url, TOPIC) == list(range(100))
        await publish(here.url, TOPIC, range(100, 130))
        assert await everything(here.url, TOPIC) == list(range(130))


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
