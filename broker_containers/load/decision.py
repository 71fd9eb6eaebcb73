"""The results of decisions: moves, plans, and the reasons for not acting.

Whenever a broker or topic could have been acted on and was not, a reason is counted, so that an
operator can see why nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from broker_containers.load.view import Balance


class SkipReason(StrEnum):
    """Why nothing was done: first for a whole plan, then for one broker or topic."""

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
    """No broker would end up less loaded than the source is now."""
    TOO_SMALL = "too_small"
    RETURNING = "returning"
    """The topic left that broker recently."""
    AFFINITY = "affinity"
    APART = "apart"
    """The target has another topic of the same group (a partition of the same topic)."""
    NO_BETTER_TARGET = "no_better_target"
    NO_BROKER = "no_broker"
    """No broker can take the topic."""


class MoveReason(StrEnum):
    """Why a topic moves."""

    OVERLOAD = "overload"
    """The source's load is above the others'."""
    FILL = "fill"
    """The target's load is far below the others'."""
    AFFINITY = "affinity"
    """A rule does not allow the source."""
    DRAIN = "drain"
    FAILOVER = "failover"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Move:
    """A topic, its source and its target."""

    topic: str
    source: str
    target: str
    cost: float
    why: MoveReason


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """What to do, its effect, and why other things are not done."""

    moves: tuple[Move, ...]
    reasons: Mapping[SkipReason, int]
    before: Balance
    after: Balance
    moved_share: float = 0.0
    """Share of the cluster's load that moves."""
    outside: Mapping[str, float] = field(default_factory=dict)
    """Brokers that are out of balance, and since when."""
    dry_run: bool = False
    """The moves are shown and not carried out."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "moves": [asdict(move) for move in self.moves],
            "reasons": {reason.value: count for reason, count in sorted(self.reasons.items())},
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "moved_share": self.moved_share,
            "outside": sorted(self.outside),
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to place, with its known or expected load."""

    name: str
    records: float | None = None
    """Expected records per second, in plus out; None if unknown."""
    bytes: float = 0.0
    """Expected bytes per second, in plus out."""
    cost: float | None = None
    """Its measured cost, which takes precedence over the expectation."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where topics go; and which ones cannot be placed, with the reason."""

    assigned: Mapping[str, str] = field(default_factory=dict)
    unplaced: Mapping[str, SkipReason] = field(default_factory=dict)
