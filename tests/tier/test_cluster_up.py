"""A whole cluster of processes with a cold tier: etcd, storage nodes, brokers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.cli.runner import BlockingClient, SulinaCommand
from tests.support.local_cluster import ClusterUp

TOPIC = "/default/clustered"
NUMBERS = [str(number) for number in range(300)]


def test_a_cluster_offloads_replays_and_finishes_an_erasure_without_the_broker_that_began_it(
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
        command("produce", TOPIC, "me: mine", "you: yours", "--key-separator", ": ")
        [asked] = command("topic", "erase", TOPIC, "--key", "me", "--no-wait", "--json").json()
        owner = command("topic", "lookup", TOPIC, "--json").json()["broker"]
        os.kill(cluster.pids[owner], signal.SIGKILL)
        direct.publish(TOPIC, "and", "on")
        while not (done := command("topic", "erase", TOPIC, "--status", "--json").json()[0])[
            "ended_us"
        ]:
            time.sleep(0.1)
        assert (done["id"], done["state"], done["erased"]) == (asked["id"], "done", 1)
        [proof] = done["objects"]
        assert proof["first_offset"] <= len(NUMBERS) <= proof["last_offset"]
        assert direct.read(TOPIC) == [*NUMBERS, "", "yours", "and", "on"]
        assert "objects" in command("ledger", "verify", TOPIC).stdout
