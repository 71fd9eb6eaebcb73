"""A whole cluster of processes with a cold tier: etcd, storage nodes, brokers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.cli.runner import BlockingClient, SulinaCommand
from tests.support.local_cluster import ClusterUp

TOPIC = "/default/clustered"
NUMBERS = [str(number) for number in range(300)]


def test_a_cluster_offloads_through_its_storage_nodes_and_replays_without_a_broker(
    tmp_path: Path,
) -> None:
    objects = tmp_path / "objects"
    objects.mkdir()
    sizes = ("--brokers", "2", "--storage", "3", "--etcd", "1")
    tier = ("--tier", f"file://{objects}", "--tier-local", "0")
    with ClusterUp(tmp_path / "cluster", *sizes, *tier) as cluster:
        direct, command = BlockingClient(cluster.url), SulinaCommand(cluster.url)
        direct.publish(TOPIC, *NUMBERS)
        done = command("ledger", "offload", TOPIC, "--wait", "--json").json()
        assert done["ledgers"] == 1
        rows = command("ledger", "list", TOPIC, "--json").json()
        assert [row["records"] for row in rows] == [len(NUMBERS)]
        assert (objects / rows[0]["key"]).stat().st_size == rows[0]["object_bytes"]
        owner = command("topic", "lookup", TOPIC, "--json").json()["broker"]
        os.kill(cluster.pids[owner], signal.SIGKILL)
        direct.publish(TOPIC, "and", "on")
        assert direct.read(TOPIC) == [*NUMBERS, "and", "on"]
        assert "1 object" in command("ledger", "verify", TOPIC).stdout
