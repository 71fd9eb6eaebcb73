"""A cluster on one machine: each broker has an admin port of its own.

``tests/danube/test_local_cluster.py`` asks the processes themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

from sulina.cli.local_plan import Asked, Counts, make_plan

_FREE = Asked(port=0, http_port=0, admin_port=0)


def test_each_broker_has_its_own_port_and_keeps_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, Counts(brokers=3), _FREE)
    assert list(plan.admin) == list(plan.brokers) and len(set(plan.admin.values())) == 3
    assert make_plan(tmp_path, Counts(brokers=3), _FREE).admin == plan.admin


def test_ports_follow_the_one_that_is_asked_for(tmp_path: Path) -> None:
    free = make_plan(tmp_path / "one", Counts(brokers=1), _FREE).admin["broker-1"]
    asked = Asked(port=0, http_port=0, admin_port=free)
    assert make_plan(tmp_path / "two", Counts(brokers=1), asked).admin == {"broker-1": free}


def test_a_plan_from_before_there_was_such_a_port_gets_some(tmp_path: Path) -> None:
    before = make_plan(tmp_path, Counts(brokers=2), _FREE)
    path = tmp_path / "cluster.json"
    plan = json.loads(path.read_text())
    del plan["admin"]
    path.write_text(json.dumps(plan))
    after = make_plan(tmp_path, Counts(brokers=2), _FREE)
    assert after.brokers == before.brokers and len(after.admin) == 2
