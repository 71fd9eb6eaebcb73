"""Which ports the processes of a local cluster get, and keep."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from broker_containers.local_cluster.ports import ClusterSize, RequestedPorts, plan_ports
from sulina.errors import Refused

FREE = RequestedPorts(port=0, http_port=0)


def test_the_same_folder_gives_the_same_ports(tmp_path: Path) -> None:
    first = plan_ports(tmp_path, ClusterSize(3, 3, 3), FREE)
    ports = [
        *(port for both in first.brokers.values() for port in both),
        *first.storage.values(),
        *(port for both in first.etcd.values() for port in both),
    ]
    assert len(set(ports)) == 15
    assert plan_ports(tmp_path, ClusterSize(3, 3, 3), FREE) == first


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
