"""The chaos test itself: what it judges, and a short run against real processes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker_containers.local_cluster.ports import ClusterSize
from sulina.metadata.etcd.server import find_etcd
from tests.chaos.faults import FAULTS, QUIET, choose
from tests.chaos.report import Report, Round, quantile
from tests.chaos.run import Task, run


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_acknowledged_is_lost_while_brokers_nodes_and_etcd_die(
    tmp_path: Path,
) -> None:
    find_etcd()
    kinds = ("broker killed", "storage killed", "all etcd cut off", "topics moved")
    task = Task(
        seconds=8.0,
        seed=3,
        counts=ClusterSize(brokers=2, storage=3, etcd=1),
        loads=1,
        lease=2,
        faults=tuple(fault for fault in FAULTS if fault.kind in kinds),
    )
    told: list[str] = []
    report = await run(task, tmp_path / "data", told.append)
    assert not report.violations, told
    assert report.rounds
    assert report.sent > 0
    assert report.failed_publishes == 0


def test_the_same_seed_chooses_the_same_faults() -> None:
    def chosen() -> list[tuple[str, ...]]:
        rngs = [random.Random(f"round 5 {number}") for number in range(200)]
        return [tuple(fault.kind for fault in choose(rng, FAULTS)) for rng in rngs]

    assert chosen() == chosen()
    assert {kind for kinds in chosen() for kind in kinds} == {fault.kind for fault in FAULTS}


def test_two_faults_at_once_are_never_of_one_tier() -> None:
    tiers = {fault.kind: fault.tier for fault in FAULTS}
    for seed in range(500):
        both = choose(random.Random(seed), FAULTS)
        if len(both) == 2:
            assert tiers[both[0].kind] != tiers[both[1].kind]
            assert QUIET not in both


def test_a_report_counts_pauses_by_kind() -> None:
    rounds = [
        Round(0.0, ("broker killed",), ("broker-1",), 1.0, pause) for pause in (1.0, 3.0, 2.0)
    ]
    rounds.append(Round(1.0, ("broker killed", "etcd killed"), ("broker-1", "etcd-1"), 1.0, 9.0))
    report = Report(1, 4, rounds=rounds)
    assert report.by_kind() == {
        "broker killed": {"count": 3, "p50": 2.0, "p99": 3.0, "max": 3.0},
        "two at once": {"count": 1, "p50": 9.0, "p99": 9.0, "max": 9.0},
    }
    assert report.to_dict()["pauses"] == report.by_kind()
    assert quantile([5.0], 0.5) == 5.0
