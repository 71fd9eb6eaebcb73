"""Settings of the load manager: one frozen value, validated on construction.

Thresholds are relative to the mean load of the cluster: ten brokers at 80 % beside an empty one are
an imbalance, all brokers at 80 % are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each resource in the weighted ranking. Only the proportions matter."""

    cpu: float = 0.40
    memory: float = 0.05
    disk: float = 0.10
    network_in: float = 0.15
    network_out: float = 0.15
    topics: float = 0.05
    connections: float = 0.05
    backlog: float = 0.05

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

    topics: float = 10_000.0
    connections: float = 10_000.0
    backlog: float = 10.0 * (1 << 30)
    network: float = 125e6
    """Bytes per second in each direction: 1 Gbit/s."""
    disk_io: float = 200e6

    def __post_init__(self) -> None:
        if any(not getattr(self, part.name) > 0 for part in fields(self)):
            raise Refused("the values of a full broker must be above 0")


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Placement and rebalancing. The defaults suit 3 to 10,000 brokers."""

    ranking: RankingName = RankingName.WEIGHTED
    weights: Weights = field(default_factory=Weights)
    full: Full = field(default_factory=Full)

    enabled: bool = True
    """Whether topics are moved automatically. Placement and failover always work."""
    dry_run: bool = False
    """Make and show plans without carrying them out."""

    high_start: float = 1.10
    """Rebalance when a broker's load exceeds the mean by this factor."""
    high_stop: float = 1.08
    """Move topics away until the load is below this factor."""
    low_start: float = 0.70
    """Also rebalance when a broker's load is below this share of the mean."""
    low_stop: float = 0.85
    """Fill such a broker up to this share of the mean."""
    confirm_seconds: float = 60.0
    """How long an imbalance must last before topics move."""
    quiet: float = 0.02
    """Move nothing while the busiest broker's load (1 is full) is below this."""

    interval_seconds: float = 60.0
    """The interval that the next three limits apply to."""
    moves_per_interval: int = 2_000
    moves_per_broker: int = 32
    load_per_interval: float = 0.05
    """Maximum share of the cluster's load moved per interval."""

    topic_cooldown_seconds: float = 900.0
    """How long a moved topic stays where it is."""
    return_seconds: float = 7_200.0
    """How long a topic does not return to a broker it left, unless a rule requires it."""
    broker_cooldown_seconds: float = 600.0
    """How long a broker that received topics gives none away, and vice versa."""
    min_move: float = 0.001
    """Do not move a topic whose load is below this share of the mean."""
    min_gain: float = 0.05
    """Minimum gain of a move, as a share of the mean, if the target ends up above ``high_stop``."""

    fresh_seconds: float = 45.0
    """Maximum age of a fully trusted load report."""
    stale_seconds: float = 180.0
    """Age at which a load report is ignored; in between, trust falls linearly."""
    min_trust: float = 0.5
    """Brokers whose reports are trusted less neither give nor receive topics."""
    ill_latency_ms: float = 50.0
    """A broker that publishes slower than this, and than 4 times the median, is unhealthy."""

    smoothing_seconds: float = 120.0
    """Time constant of the moving average over load reports."""
    horizon_seconds: float = 1_800.0
    """How far ahead placement forecasts load."""

    rules: tuple[PlacementRule, ...] = ()
    blacklist_topics: tuple[str, ...] = ()
    """Patterns of topics that are never moved automatically."""
    blacklist_brokers: tuple[str, ...] = ()
    """Patterns of brokers that receive no topics."""

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
