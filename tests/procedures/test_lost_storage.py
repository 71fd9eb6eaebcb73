"""All storage nodes are lost with their disks: what was tiered is there, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_containers.local_cluster.ports import ClusterSize
from tests.procedures.machine import everything, machine, publish

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
