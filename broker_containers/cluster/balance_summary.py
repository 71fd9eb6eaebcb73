"""How the load is spread, in plain values: for people, tools and ``/cluster/load_balance``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from broker_containers.load.decision import SkipReason
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import BrokerLoad, ClusterView, balance_of


def summary(
    view: ClusterView,
    settings: BalanceSettings,
    reasons: Mapping[SkipReason, int],
    moves: Mapping[str, int],
) -> dict[str, Any]:
    """Brokers by load, how even it is, what was moved, and the counted reasons for not moving."""
    balance = balance_of(view.brokers.values())
    return {
        "ranking": settings.ranking.value,
        "high": settings.high_start,
        "low": settings.low_start,
        "balance": {**asdict(balance), "max_over_mean": balance.max_over_mean},
        "brokers": [_ranked(one) for one in sorted(view.brokers.values(), key=_by_load)],
        "reasons": {reason.value: count for reason, count in sorted(reasons.items())},
        "moves": dict(moves),
    }


def _by_load(broker: BrokerLoad) -> tuple[float, str]:
    return -broker.load, broker.id


def _ranked(broker: BrokerLoad) -> dict[str, Any]:
    return {
        "broker": broker.id,
        "load": broker.load,
        "topics": len(broker.topics),
        "state": broker.state.value,
        "trust": broker.trust,
    }
