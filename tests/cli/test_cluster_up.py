"""A cluster of processes, ``sulina up --brokers``: its ports, its commands, its restarts."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_containers.local_cluster.ports import ClusterSize, RequestedPorts, plan_ports
from sulina.errors import Refused
from sulina.metadata.etcd.server import find_etcd
from tests.cli.runner import BlockingClient, SulinaCommand
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


TOPIC = "/default/t"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUp]:
    data: Path = tmp_path_factory.mktemp("cluster") / "data"
    with ClusterUp(data, "--brokers", "2", "--storage", "1", "--etcd", "1") as running:
        BlockingClient(running.url).publish(TOPIC, "one", "two")
        yield running


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_operator_describes_a_cluster_moves_topics_and_drains_a_broker(
    cluster: ClusterUp,
) -> None:
    sulina = SulinaCommand(cluster.url)
    # Describe.
    shown = sulina("cluster", "describe").stdout
    assert "broker-1" in shown and "broker-2" in shown
    described = sulina("cluster", "describe", "--json").json()
    assert described["leader"] in ("broker-1", "broker-2")
    assert described["topics"] >= 1  # the system's own are counted as well
    rows = sulina("broker", "list", "--json").json()
    assert [row["broker"] for row in rows] == ["broker-1", "broker-2"]
    assert any(row["topics"] for row in rows)  # how many may change between two looks
    owner = sulina("topic", "lookup", TOPIC, "--json").json()["broker"]
    assert owner in sulina("topic", "lookup", TOPIC).stdout
    assert TOPIC in sulina("broker", "describe", owner, "--topics").lines()
    assert TOPIC in sulina("broker", "describe", owner, "--json").json()["owns"]
    [ledger] = sulina("topic", "ledgers", TOPIC, "--json").json()["ledgers"]
    assert ledger["first_offset"] == 0
    assert "first offset" in sulina("topic", "ledgers", TOPIC).stdout

    # Move a topic there and back.
    [other] = {"broker-1", "broker-2"} - {owner}
    ran = sulina("topic", "move", TOPIC, "--to", other, "--wait")
    assert ran.stdout == f"moved {TOPIC} from {owner} to {other}\n"
    assert sulina("topic", "move", TOPIC, "--json").json()["target"] == owner
    assert "/default/none has no owner" in sulina("topic", "move", "/default/none", code=1).stderr

    # Drain a broker, and activate it.
    moved = sulina("broker", "drain", owner, "--json").json()
    assert moved["mode"] == "draining"
    assert sulina("topic", "lookup", TOPIC, "--json").json()["broker"] == other
    assert "draining" in sulina("broker", "list").stdout
    ran = sulina("broker", "drain", other, code=1)
    assert f"{other} is the only active broker" in ran.stderr
    assert (
        sulina("broker", "activate", owner).stdout
        == f"activated {owner}: it can own topics again\n"
    )
    ran = sulina("broker", "drain", "broker-9", code=1)
    assert "no broker 'broker-9' is running" in ran.stderr
    assert BlockingClient(cluster.url).read(TOPIC) == ["one", "two"]

    # Delete a topic where no node has an object store.
    BlockingClient(cluster.url).publish("/default/short-lived", "one")
    sulina("topic", "delete", "/default/short-lived")
    assert "/default/short-lived" not in sulina("topic", "list").stdout

    # Balance.
    assert {row["broker"] for row in sulina("balance", "show", "--json").json()["brokers"]} == {
        "broker-1",
        "broker-2",
    }
    assert "leader" in sulina("balance", "show").stdout
    assert "max/mean" in sulina("balance", "plan").stdout
    assert sulina("balance", "plan", "--json").json()["moves"] == []
    assert "max/mean" in sulina("balance", "rebalance").stdout
    history = sulina("balance", "history", "--json").json()
    assert [each["why"] for each in history["moves"]] == ["drain", "manual", "manual"]
    assert TOPIC in sulina("balance", "history").stdout


FREE = RequestedPorts(port=0, http_port=0)


def test_files_of_all_processes_are_for_their_owner_alone(cluster: ClusterUp) -> None:
    everything = [cluster.data, *cluster.data.rglob("*")]
    assert {"etcd-1", "storage-1"} <= {path.name for path in everything}
    assert not [path for path in everything if path.stat().st_mode & 0o077]


def test_the_same_folder_gives_the_same_ports(tmp_path: Path) -> None:
    first = plan_ports(tmp_path, ClusterSize(3, 3, 3), FREE)
    ports = [
        *(port for both in first.brokers.values() for port in both),
        *first.storage.values(),
        *(port for both in first.etcd.values() for port in both),
    ]
    assert len(set(ports)) == 15
    assert plan_ports(tmp_path, ClusterSize(3, 3, 3), FREE) == first


def test_a_second_cluster_leaves_the_default_ports_to_one_that_is_stopped(tmp_path: Path) -> None:
    port = plan_ports(tmp_path / "free", ClusterSize(1, 1, 1), FREE).brokers["broker-1"][0]
    requested = RequestedPorts(port=port, http_port=0)
    second = plan_ports(tmp_path / "second", ClusterSize(1, 3, 3), requested)
    inner = {*second.storage.values(), *second.metrics.values()}
    inner |= {each for both in second.etcd.values() for each in both}
    assert not inner & {*range(2379, 2479), *range(6660, 6770)}


def test_brokers_and_storage_nodes_can_be_added_later(tmp_path: Path) -> None:
    first = plan_ports(tmp_path, ClusterSize(1, 1, 1), FREE)
    later = plan_ports(tmp_path, ClusterSize(2, 2, 1), FREE)
    assert later.brokers["broker-1"] == first.brokers["broker-1"]
    assert set(later.storage) == {"storage-1", "storage-2"}
    fewer = plan_ports(tmp_path, ClusterSize(1, 2, 1), FREE)
    assert fewer.storage == later.storage


def test_a_storage_node_moves_when_its_port_is_taken_but_etcd_stays(tmp_path: Path) -> None:
    first = plan_ports(tmp_path, ClusterSize(1, 1, 1), FREE)
    with socket.create_server(("127.0.0.1", first.storage["storage-1"])):
        moved = plan_ports(tmp_path, ClusterSize(1, 1, 1), FREE)
    assert moved.storage != first.storage
    assert moved.etcd == first.etcd
    peer = first.etcd["etcd-1"][1]
    with (
        socket.create_server(("127.0.0.1", peer)),
        pytest.raises(Refused, match=f"{peer} is in use, and .* know etcd-1 by this port"),
    ):
        plan_ports(tmp_path, ClusterSize(1, 1, 1), FREE)


def test_a_cluster_is_not_started_with_fewer_nodes(tmp_path: Path) -> None:
    plan_ports(tmp_path, ClusterSize(1, 3, 3), FREE)
    with pytest.raises(Refused, match="with --storage 3"):
        plan_ports(tmp_path, ClusterSize(1, 2, 3), FREE)
    with pytest.raises(Refused, match="with --etcd 3"):
        plan_ports(tmp_path, ClusterSize(1, 3, 1), FREE)


@pytest.mark.parametrize("written", ["", "[]", '{"brokers": 1}', "{"])
def test_an_invalid_ports_file_is_reported_in_a_sentence(tmp_path: Path, written: str) -> None:
    (tmp_path / "cluster.json").write_text(written)
    with pytest.raises(Refused, match="is not valid"):
        plan_ports(tmp_path, ClusterSize(), FREE)


def test_the_ports_are_on_disk_before_anything_starts(tmp_path: Path) -> None:
    plan = plan_ports(tmp_path / "new", ClusterSize(2, 1, 1), FREE)
    kept = json.loads((tmp_path / "new" / "cluster.json").read_text())
    assert kept["brokers"]["broker-2"] == list(plan.brokers["broker-2"])


def test_ports_beyond_the_last_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is too high for this many"):
        plan_ports(tmp_path, ClusterSize(3, 1, 1), RequestedPorts(port=0, http_port=65535))
