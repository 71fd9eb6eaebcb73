"""Figures of a broker as part of a cluster; those of the leader are told by the leader alone."""

from __future__ import annotations

from broker_containers.cluster.election import Election
from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.view import balance_of
from broker_containers.metrics.exposition import Exposition, MetricType, Write


def of_cluster(
    tables: ClusterTables,
    election: Election,
    ownership: Ownership,
    leader_tasks: LeaderTasks,
    me: str,
) -> Write:
    """Members, owners, the leader's decisions and its reasons for not acting."""

    def write(text: Exposition) -> None:
        text.one(
            "sulina_cluster_brokers", MetricType.GAUGE, "Brokers that live.", len(tables.living())
        )
        owned = sum(1 for _ in tables.topics_of(me))
        text.one("sulina_cluster_topics_owned", MetricType.GAUGE, "Topics of this broker.", owned)
        text.one(
            "sulina_cluster_topics_handed_over",
            MetricType.COUNTER,
            "Topics that this broker handed over to another one.",
            ownership.moved_away,
        )
        leads = election.term > 0
        text.one("sulina_cluster_leader", MetricType.GAUGE, "1 if this broker leads.", int(leads))
        if leads:
            _write_leader(text, tables, leader_tasks)

    return write


def _write_leader(text: Exposition, tables: ClusterTables, leader_tasks: LeaderTasks) -> None:
    waiting = len(tables.wishes.items)
    text.one("sulina_cluster_unassigned", MetricType.GAUGE, "Topics that want an owner.", waiting)
    moving = sum(1 for owner in tables.owners.items.values() if owner.to)
    text.one(
        "sulina_cluster_moving", MetricType.GAUGE, "Topics on their way to another owner.", moving
    )
    text.each(
        "sulina_balance_moves",
        MetricType.COUNTER,
        "Topics that got another owner, by why.",
        (({"why": why}, count) for why, count in sorted(leader_tasks.moves.items())),
    )
    text.each(
        "sulina_balance_not_moved",
        MetricType.COUNTER,
        "Decisions not to move a topic, by reason.",
        (({"reason": each.value}, count) for each, count in sorted(leader_tasks.reasons.items())),
    )
    view = leader_tasks.view()
    text.each(
        "sulina_balance_load",
        MetricType.GAUGE,
        "Load of each broker as the leader sees it; 1 is a full one.",
        (({"broker": one.id}, one.load) for one in view.brokers.values()),
    )
    balance = balance_of(view.brokers.values())
    text.one(
        "sulina_balance_max_over_mean",
        MetricType.GAUGE,
        "The highest load of a broker over the mean.",
        balance.max_over_mean,
    )
