"""What decisions are made of: moves, plans, and the reasons for not acting.

Every time a broker or a topic could have been acted upon and was not, one of these reasons is
counted, so that an operator can see why nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from broker_containers.load.view import Balance


class SkipReason(StrEnum):
    """Why nothing was done. The first group is about a whole plan, the second about one thing."""

    DISABLED = "disabled"
    TOO_FEW_BROKERS = "too_few_brokers"
    BLIND = "blind"
    """Fewer than half of the brokers have a fresh report."""
    QUIET = "quiet"
    BALANCED = "balanced"
    CONFIRMING = "confirming"
    """The imbalance has not lasted long enough yet."""

    STALE_REPORT = "stale_report"
    DRAINING = "draining"
    BROKER_BLACKLISTED = "broker_blacklisted"
    BROKER_COOLDOWN = "broker_cooldown"
    MOVE_LIMIT = "move_limit"
    LOAD_LIMIT = "load_limit"
    BROKER_MOVE_LIMIT = "broker_move_limit"
    TOPIC_COOLDOWN = "topic_cooldown"
    TOPIC_BLACKLISTED = "topic_blacklisted"
    TOO_BIG = "too_big"
    """Wherever the topic went, that broker would be no better off than this one."""
    TOO_SMALL = "too_small"
    RETURNING = "returning"
    """The topic left that broker lately."""
    AFFINITY = "affinity"
    APART = "apart"
    """The target has another topic of the same group (a partition of the same topic)."""
    NO_BETTER_TARGET = "no_better_target"
    NO_BROKER = "no_broker"
    """Nobody can take the topic at all."""


class MoveReason(StrEnum):
    """What a move is for."""

    OVERLOAD = "overload"
    """Its broker is above the others."""
    FILL = "fill"
    """The target is far below the others."""
    AFFINITY = "affinity"
    """Its broker is not one that the rules allow."""
    DRAIN = "drain"
    FAILOVER = "failover"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Move:
    """One topic from one broker to another."""

    topic: str
    source: str
    target: str
    cost: float
    why: MoveReason


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """What to do, what it would lead to, and why other things are not done."""

    moves: tuple[Move, ...]
    reasons: Mapping[SkipReason, int]
    before: Balance
    after: Balance
    moved_share: float = 0.0
    """Part of the cluster's load that the moves carry."""
    outside: Mapping[str, float] = field(default_factory=dict)
    """Brokers that are out of balance, and since when."""
    dry_run: bool = False
    """The moves are for looking at, not for carrying out."""

    def to_dict(self) -> dict[str, Any]:
        """For people and the HTTP door, as JSON values."""
        return {
            "moves": [
                {
                    "topic": move.topic,
                    "source": move.source,
                    "target": move.target,
                    "cost": move.cost,
                    "why": move.why.value,
                }
                for move in self.moves
            ],
            "reasons": {reason.value: count for reason, count in sorted(self.reasons.items())},
            "before": _described(self.before),
            "after": _described(self.after),
            "moved_share": self.moved_share,
            "outside": sorted(self.outside),
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be placed, with what is known or hinted about it."""

    name: str
    records: float | None = None
    """Expected records a second, in and out; None if nobody said."""
    bytes: float = 0.0
    """Expected bytes a second, in and out."""
    cost: float | None = None
    """Its measured cost, which is better than a hint."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where topics go, and which go nowhere and why."""

    assigned: Mapping[str, str] = field(default_factory=dict)
    unplaced: Mapping[str, SkipReason] = field(default_factory=dict)


def _described(balance: Balance) -> dict[str, float]:
    return {
        "mean": balance.mean,
        "highest": balance.highest,
        "lowest": balance.lowest,
        "cv": balance.cv,
        "bound": balance.bound,
        "max_over_mean": balance.max_over_mean,
        "max_over_bound": balance.max_over_bound,
    }
