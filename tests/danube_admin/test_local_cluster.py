"""A cluster on one machine: each broker has an admin port of its own.

``tests/danube/test_local_cluster.py`` asks the processes themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

from broker_containers.local_cluster.ports import ClusterSize, RequestedPorts, plan_ports

_FREE = RequestedPorts(port=0, http_port=0, admin_port=0)


def test_each_broker_has_its_own_port_and_keeps_it(tmp_path: Path) -> None:
    plan = plan_ports(tmp_path, ClusterSize(brokers=3), _FREE)
    assert list(plan.admin) == list(plan.brokers) and len(set(plan.admin.values())) == 3
    assert plan_ports(tmp_path, ClusterSize(brokers=3), _FREE).admin == plan.admin


def test_ports_follow_the_one_that_is_asked_for(tmp_path: Path) -> None:
    free = plan_ports(tmp_path / "one", ClusterSize(brokers=1), _FREE).admin["broker-1"]
    asked = RequestedPorts(port=0, http_port=0, admin_port=free)
    assert plan_ports(tmp_path / "two", ClusterSize(brokers=1), asked).admin == {"broker-1": free}


def test_a_plan_without_admin_ports_gets_some(tmp_path: Path) -> None:
    before = plan_ports(tmp_path, ClusterSize(brokers=2), _FREE)
    path = tmp_path / "cluster.json"
    plan = json.loads(path.read_text())
    del plan["admin"]
    path.write_text(json.dumps(plan))
    after = plan_ports(tmp_path, ClusterSize(brokers=2), _FREE)
    assert after.brokers == before.brokers and len(after.admin) == 2
