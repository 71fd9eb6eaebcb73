"""Metrics of a broker that is part of a cluster; some are reported by the leader only."""

from __future__ import annotations

from typing import Final

from broker_containers.cluster.election import Election
from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.decision import MoveReason
from broker_containers.load.view import balance_of
from broker_containers.metrics.collectors.danube import write_leadership
from sulina.metrics.exposition import Exposition, Write


def of_cluster(
    tables: ClusterTables,
    election: Election,
    ownership: Ownership,
    leader_tasks: LeaderTasks,
    me: str,
) -> Write:
    """Members, owners, and the leader's decisions with their reasons."""

    def write(text: Exposition) -> None:
        text.gauge("sulina_cluster_brokers", "Live brokers.", len(tables.living()))
        owned = sum(1 for _ in tables.topics_of(me))
        text.gauge("sulina_cluster_topics_owned", "Topics this broker owns.", owned)
        text.counter(
            "sulina_cluster_topics_handed_over",
            "Topics this broker handed over to another broker.",
            ownership.moved_away,
        )
        leads = election.term > 0
        text.gauge("sulina_cluster_leader", "1 on the leader.", int(leads))
        cv = _write_leader(text, tables, leader_tasks) if leads else None
        write_leadership(text, leads=leads, cv=cv)

    return write


_NONE: Final = dict.fromkeys((*(each.value for each in MoveReason), "forced", "new"), 0)
"""Every cause of moves: a counter that begins above zero would hide its first move from rates."""


def _write_leader(text: Exposition, tables: ClusterTables, leader_tasks: LeaderTasks) -> float:
    """Returns how unevenly load is spread."""
    waiting = len(tables.unassigned.items)
    text.gauge("sulina_cluster_unassigned", "Topics without an owner.", waiting)
    moving = sum(1 for owner in tables.owners.items.values() if owner.to)
    text.gauge("sulina_cluster_moving", "Topics moving to another owner.", moving)
    text.counter(
        "sulina_balance_moves",
        "Topics moved to another owner, by cause.",
        (({"why": why}, count) for why, count in sorted((_NONE | leader_tasks.moves).items())),
    )
    text.counter(
        "sulina_balance_not_moved",
        "Decisions not to move a topic, by reason.",
        (({"reason": each.value}, count) for each, count in sorted(leader_tasks.reasons.items())),
    )
    view = leader_tasks.view()
    text.gauge(
        "sulina_balance_load",
        "Load of each broker as measured by the leader; 1 is full.",
        (({"broker": one.id}, one.load) for one in view.brokers.values()),
    )
    balance = balance_of(view.brokers.values())
    text.gauge(
        "sulina_balance_max_over_mean",
        "Ratio of the highest broker load to the mean.",
        balance.max_over_mean,
    )
    return balance.cv
