"""Figures of a broker as part of a cluster; those of the leader are told by the leader alone."""

from __future__ import annotations

from broker_containers.cluster.election import Election
from broker_containers.cluster.leader_tasks import Duties
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.view import balance_of
from broker_containers.metrics.exposition import Exposition, Kind, Write


def of_cluster(
    tables: ClusterTables, election: Election, ownership: Ownership, duties: Duties, me: str
) -> Write:
    """Members, owners, the leader's decisions and its reasons for not acting."""

    def write(text: Exposition) -> None:
        text.one("sulina_cluster_brokers", Kind.GAUGE, "Brokers that live.", len(tables.living()))
        owned = sum(1 for _ in tables.topics_of(me))
        text.one("sulina_cluster_topics_owned", Kind.GAUGE, "Topics of this broker.", owned)
        text.one(
            "sulina_cluster_topics_handed_over",
            Kind.COUNTER,
            "Topics that this broker handed over to another one.",
            ownership.moved_away,
        )
        leads = election.term > 0
        text.one("sulina_cluster_leader", Kind.GAUGE, "1 if this broker leads.", int(leads))
        if leads:
            _write_leader(text, tables, duties)

    return write


def _write_leader(text: Exposition, tables: ClusterTables, duties: Duties) -> None:
    waiting = len(tables.wishes.items)
    text.one("sulina_cluster_unassigned", Kind.GAUGE, "Topics that want an owner.", waiting)
    moving = sum(1 for owner in tables.owners.items.values() if owner.to)
    text.one("sulina_cluster_moving", Kind.GAUGE, "Topics on their way to another owner.", moving)
    text.each(
        "sulina_balance_moves",
        Kind.COUNTER,
        "Topics that got another owner, by why.",
        (({"why": why}, count) for why, count in sorted(duties.moves.items())),
    )
    text.each(
        "sulina_balance_not_moved",
        Kind.COUNTER,
        "Decisions not to move a topic, by reason.",
        (({"reason": each.value}, count) for each, count in sorted(duties.reasons.items())),
    )
    view = duties.view()
    text.each(
        "sulina_balance_load",
        Kind.GAUGE,
        "Load of each broker as the leader sees it; 1 is a full one.",
        (({"broker": one.id}, one.load) for one in view.brokers.values()),
    )
    balance = balance_of(view.brokers.values())
    text.one(
        "sulina_balance_max_over_mean",
        Kind.GAUGE,
        "The highest load of a broker over the mean.",
        balance.max_over_mean,
    )
