"""``sulina up --brokers``: a cluster of processes that is restarted and keeps its data."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from sulina.metadata.etcd.server import find_etcd
from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import SulinaCommand
from tests.support.local_cluster import ClusterUp, wait_gone

NOBODY = SulinaCommand("sulina://127.0.0.1:1")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_process_is_restarted_and_data_survives_a_restart(tmp_path: Path) -> None:
    find_etcd()
    cluster = ClusterUp(tmp_path / "data", "--brokers", "2", "--storage", "3", "--etcd", "1")
    with cluster:
        ready = cluster.ready
        assert [row["id"] for row in ready["brokers"]] == ["broker-1", "broker-2"]
        assert len(ready["storage"]) == 3
        assert len(ready["etcd"]) == 1
        assert ready["url"] == "sulina://" + ",".join(
            f"127.0.0.1:{row['port']}" for row in ready["brokers"]
        )
        BlockingClient(cluster.url).publish("/default/t", "one", "two")

        os.kill(cluster.pids["storage-2"], signal.SIGKILL)
        assert cluster.event() == {"event": "ended", "process": "storage-2"}
        assert cluster.event() == {"event": "started", "process": "storage-2"}
        ran = NOBODY("up", "--brokers", "2", "--data", str(cluster.data), "--port", "0", code=1)
        assert "another process uses the folder" in ran.stderr

        pids = list(cluster.pids.values())
        assert cluster.stop(signal.SIGKILL) == -signal.SIGKILL
        wait_gone(pids)

        cluster.start()
        assert cluster.url == ready["url"]
        assert BlockingClient(cluster.url).read("/default/t") == ["one", "two"]
        pids = list(cluster.pids.values())
        assert cluster.stop(signal.SIGINT) == 0
        wait_gone(pids)

    started = ("up", "--data", str(cluster.data), "--port", "0")
    ran = NOBODY(*started, "--etcd", "3", code=1)
    assert "holds a cluster with --etcd 1" in ran.stderr
    ran = NOBODY(*started, "--etcd", "1", "--storage", "1", code=1)
    assert "holds a cluster with --storage 3" in ran.stderr


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ("up", "--brokers", "1", "--port", port, "--data", str(tmp_path / "data"))
        ran = NOBODY(*command, code=1)
    assert f"can't listen on 127.0.0.1:{port}" in ran.stderr
    assert not (tmp_path / "data" / "etcd").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--storage-node", "a=127.0.0.1:1"), "--storage-node can't be used with a cluster"),
        (("--broker-id", "x"), "--broker-id can't be used with a cluster"),
    ],
)
def test_options_for_one_process_are_refused(arguments: tuple[str, ...], words: str) -> None:
    assert words in NOBODY("up", "--brokers", "3", *arguments, code=2).stderr


def test_an_address_that_clients_could_not_use_is_refused(tmp_path: Path) -> None:
    command = ("up", "--brokers", "3", "--host", "0.0.0.0", "--data", str(tmp_path / "data"))
    assert "clients can reach" in NOBODY(*command, code=1).stderr


def test_the_folder_of_a_single_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "journal-0.log").write_bytes(b"")
    ran = NOBODY("up", "--brokers", "1", "--port", "0", "--data", str(tmp_path), code=1)
    assert "without --brokers" in ran.stderr
