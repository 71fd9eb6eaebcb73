"""Settings of the load manager: one frozen value, validated on construction.

Thresholds are relative to the mean load of the cluster: ten brokers at 80 % beside an empty one are
an imbalance, all brokers at 80 % are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from broker_containers import settable
from broker_containers.load.rules import PlacementRule, PlacementRules
from sulina.errors import Refused


class RankingName(StrEnum):
    """How load is measured."""

    SIMPLE = "simple"
    """The number of topics."""
    COMPOSITE = "composite"
    """Topics, CPU and memory, a third each."""
    WEIGHTED = "weighted"
    """Everything in a load report, weighted by the settings."""


def _weight(default: float, part: str) -> Any:
    text = f"Weight of {part} in the weighted ranking."
    return settable.number(default, 0, 1000, settable.ALL, text)


def _full(default: float, what: str) -> Any:
    text = f"{what} of a full broker, if its report states no limit."
    return settable.number(default, 1, 1e15, settable.ALL, text)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each resource in the weighted ranking. Only the proportions matter."""

    cpu: float = _weight(0.40, "cpu")
    memory: float = _weight(0.05, "memory")
    disk: float = _weight(0.10, "disk")
    network_in: float = _weight(0.15, "network in")
    network_out: float = _weight(0.15, "network out")
    topics: float = _weight(0.05, "topics")
    connections: float = _weight(0.05, "connections")
    backlog: float = _weight(0.05, "backlog")

    def __post_init__(self) -> None:
        values = [getattr(self, part.name) for part in fields(self)]
        if any(not math.isfinite(value) or value < 0 for value in values) or sum(values) <= 0:
            raise Refused("weights must be 0 or more, and at least one must be above 0")

    def shares(self) -> dict[str, float]:
        """The weights scaled to a sum of 1."""
        total = sum(getattr(self, part.name) for part in fields(self))
        return {part.name: getattr(self, part.name) / total for part in fields(self)}


@dataclass(frozen=True, slots=True)
class Full:
    """The capacity of a broker whose report states no limit."""

    topics: float = _full(10_000.0, "Topics")
    connections: float = _full(10_000.0, "Connections")
    backlog: float = _full(10.0 * (1 << 30), "Bytes of backlog")
    network: float = _full(125e6, "Network bytes per second")
    """In each direction: 1 Gbit/s."""
    disk_io: float = _full(200e6, "Disk bytes per second")

    def __post_init__(self) -> None:
        if any(not getattr(self, part.name) > 0 for part in fields(self)):
            raise Refused("the values of a full broker must be above 0")


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Placement and rebalancing. The defaults suit 3 to 10,000 brokers."""

    # fmt: off
    ranking: RankingName = settable.choice(RankingName.WEIGHTED, settable.ALL,
        "How load is measured.", choices=tuple(RankingName))
    weights: Weights = field(default_factory=Weights)
    full: Full = field(default_factory=Full)

    enabled: bool = settable.flag(True, settable.ALL, "Move topics automatically.")
    dry_run: bool = settable.flag(False, settable.ALL,
        "Make and show plans without carrying them out.")

    high_start: float = settable.number(1.10, 1, 100, settable.ALL,
        "Rebalance when a broker's load exceeds the mean by this factor.")
    high_stop: float = settable.number(1.08, 1, 100, settable.ALL,
        "Move topics away until the load is below this factor.")
    low_start: float = settable.number(0.70, 0, 1, settable.ALL,
        "Also rebalance when a broker's load is below this share of the mean.")
    low_stop: float = settable.number(0.85, 0, 1, settable.ALL,
        "Fill such a broker up to this share of the mean.")
    confirm_seconds: float = settable.seconds(60.0, 0, settable.DAY, settable.ALL,
        "How long an imbalance must last before topics move.")
    quiet: float = settable.number(0.02, 0, 1, settable.ALL,
        "Move nothing while the busiest broker's load is below this.")

    interval_seconds: float = settable.seconds(60.0, 1, settable.DAY, settable.ALL,
        "The interval that the next three limits apply to.")
    moves_per_interval: int = settable.count(2_000, 1, 1 << 20, settable.ALL,
        "Maximum number of moves per interval.")
    moves_per_broker: int = settable.count(32, 1, 1 << 20, settable.ALL,
        "Maximum number of moves from or to a broker per interval.")
    load_per_interval: float = settable.number(0.05, 0, 1, settable.ALL,
        "Maximum share of the cluster's load moved per interval.")

    topic_cooldown_seconds: float = settable.seconds(900.0, 0, 30 * settable.DAY, settable.ALL,
        "How long a moved topic stays where it is.")
    return_seconds: float = settable.seconds(7_200.0, 0, 30 * settable.DAY, settable.ALL,
        "How long a topic does not return to a broker it left, unless a rule requires it.")
    broker_cooldown_seconds: float = settable.seconds(600.0, 0, 30 * settable.DAY, settable.ALL,
        "How long a broker that received topics gives none away, and vice versa.")
    min_move: float = settable.number(0.001, 0, 1, settable.ALL,
        "Do not move a topic whose load is below this share of the mean.")
    min_gain: float = settable.number(0.05, 0, 1, settable.ALL,
        "Minimum gain of a move, as a share of the mean load, where the target ends up above "
        "balance.high_stop.")

    fresh_seconds: float = settable.seconds(45.0, 0.1, settable.DAY, settable.ALL,
        "Maximum age of a fully trusted load report.")
    stale_seconds: float = settable.seconds(180.0, 0.1, settable.DAY, settable.ALL,
        "Age at which a load report is ignored.")
    min_trust: float = settable.number(0.5, 0, 1, settable.ALL,
        "Brokers whose reports are trusted less neither give nor receive topics.")
    ill_latency_ms: float = settable.milliseconds(50.0, 0, 60_000, settable.ALL,
        "A broker that publishes slower than this, and than four times the median, counts as "
        "unhealthy.")

    smoothing_seconds: float = settable.seconds(120.0, 0.1, settable.DAY, settable.ALL,
        "Time constant of the moving average over load reports.")
    horizon_seconds: float = settable.seconds(1_800.0, 0, settable.DAY, settable.ALL,
        "How far ahead placement forecasts load.")

    rules: tuple[PlacementRule, ...] = settable.rules((), settable.ALL,
        "Which brokers topics may or may not be on.")
    blacklist_topics: tuple[str, ...] = settable.patterns((), settable.ALL,
        "Topics that are never moved automatically.")
    blacklist_brokers: tuple[str, ...] = settable.patterns((), settable.ALL,
        "Brokers that receive no topics.")
    # fmt: on

    def __post_init__(self) -> None:
        if not 0 < self.low_start <= self.low_stop < 1 < self.high_stop <= self.high_start:
            raise Refused(
                "thresholds must rise: 0 < low_start <= low_stop < 1 < high_stop <= high_start; "
                f"they are {self.low_start}, {self.low_stop}, 1, {self.high_stop}, "
                f"{self.high_start}"
            )
        if not 0 < self.fresh_seconds < self.stale_seconds:
            raise Refused("stale_seconds must be more than fresh_seconds, and both more than 0")
        for name in ("moves_per_interval", "moves_per_broker", "interval_seconds"):
            if getattr(self, name) <= 0:
                raise Refused(f"{name} must be more than 0; to stop moves, set enabled to false")
        for name in ("load_per_interval", "min_trust"):
            if not 0 < getattr(self, name) <= 1:
                raise Refused(f"{name} must be more than 0 and at most 1")
        for name in (
            "confirm_seconds", "quiet", "topic_cooldown_seconds", "return_seconds",
            "broker_cooldown_seconds", "min_move", "min_gain", "ill_latency_ms",
            "horizon_seconds",
        ):  # fmt: skip
            if not getattr(self, name) >= 0:
                raise Refused(f"{name} must not be negative")
        if not self.smoothing_seconds > 0:
            raise Refused("smoothing_seconds must be more than 0")
        self.rule_book()

    def rule_book(self) -> PlacementRules:
        """The compiled rules and blacklists. Raises ``Refused`` for an invalid pattern."""
        return PlacementRules(self.rules, self.blacklist_topics, self.blacklist_brokers)
