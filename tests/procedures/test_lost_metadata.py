"""etcd is lost with its disks: how an operator comes back, as docs/operations.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_containers.local_cluster.ports import ClusterSize
from tests.procedures.machine import everything, machine, publish

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
