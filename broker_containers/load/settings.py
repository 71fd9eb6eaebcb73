"""What can be set about balancing: one frozen value, checked when it is made.

Levels are relative to the mean of the cluster, so that ten brokers at 80 % beside an empty one
are an imbalance, and all brokers at 80 % are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from broker_containers.load.rules import PlacementRule, PlacementRules
from sulina.errors import Refused


class RankingName(StrEnum):
    """How load is measured."""

    SIMPLE = "simple"
    """The number of topics."""
    COMPOSITE = "composite"
    """Topics, CPU and memory, a third each."""
    WEIGHTED = "weighted"
    """Everything a report tells, with the weights of the settings."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts in the weighted ranking. Only their proportions matter."""

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
            raise Refused("weights are numbers from 0 up, and at least one is above 0")

    def shares(self) -> dict[str, float]:
        """The weights so that they add up to 1."""
        total = sum(getattr(self, part.name) for part in fields(self))
        return {part.name: getattr(self, part.name) / total for part in fields(self)}


@dataclass(frozen=True, slots=True)
class Full:
    """What counts as a full broker where a report has no limit of its own."""

    topics: float = 10_000.0
    connections: float = 10_000.0
    backlog: float = 10.0 * (1 << 30)
    network: float = 125e6
    """Bytes a second each way: 1 Gbit/s."""
    disk_io: float = 200e6

    def __post_init__(self) -> None:
        if any(not getattr(self, part.name) > 0 for part in fields(self)):
            raise Refused("what counts as full is a number above 0")


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Everything about placement and rebalancing. Defaults suit 3 to 10,000 brokers."""

    ranking: RankingName = RankingName.WEIGHTED
    weights: Weights = field(default_factory=Weights)
    full: Full = field(default_factory=Full)

    enabled: bool = True
    """Whether topics are moved automatically. Placement and failover always work."""
    dry_run: bool = False
    """Plans are made and shown, and not carried out."""

    high_start: float = 1.10
    """A broker above so many times the mean starts rebalancing."""
    high_stop: float = 1.08
    """Brokers are brought below this, and no further."""
    low_start: float = 0.70
    """A broker below this share of the mean starts rebalancing, too."""
    low_stop: float = 0.85
    """Such a broker is filled up to this."""
    confirm_seconds: float = 60.0
    """An imbalance must last so long before anything moves."""
    quiet: float = 0.02
    """Below this load of the busiest broker (1 is a full one) nothing is worth moving."""

    interval_seconds: float = 60.0
    """The window of the three limits below."""
    moves_per_interval: int = 2_000
    moves_per_broker: int = 32
    load_per_interval: float = 0.05
    """Share of the cluster's load that may move in a window."""

    topic_cooldown_seconds: float = 900.0
    """A topic that was moved stays at least so long."""
    return_seconds: float = 7_200.0
    """A topic does not come back to a broker it left for so long, unless it must."""
    broker_cooldown_seconds: float = 600.0
    """A broker that got topics gives none away for so long, and the other way round."""
    min_move: float = 0.001
    """A topic below this share of the mean load is not worth a move of its own."""
    min_gain: float = 0.05
    """What a move must gain, as share of the mean, if it can't bring its target below the stop."""

    fresh_seconds: float = 45.0
    """A report up to this age is trusted; brokers write one every 10 to 15 seconds."""
    stale_seconds: float = 180.0
    """At this age it is not trusted at all; in between, trust falls evenly."""
    min_trust: float = 0.5
    """Below this a broker neither gives nor gets topics."""
    ill_latency_ms: float = 50.0
    """Publishing slower than this, and than four times the median broker, is illness."""

    smoothing_seconds: float = 120.0
    """The time constant of the moving average over reports."""
    horizon_seconds: float = 1_800.0
    """How far the forecast looks that placement uses."""

    rules: tuple[PlacementRule, ...] = ()
    blacklist_topics: tuple[str, ...] = ()
    """Patterns of topics that are never moved automatically."""
    blacklist_brokers: tuple[str, ...] = ()
    """Patterns of brokers that get no topics."""

    def __post_init__(self) -> None:
        if not 0 < self.low_start <= self.low_stop < 1 < self.high_stop <= self.high_start:
            raise Refused(
                "the levels must rise: 0 < low_start <= low_stop < 1 < high_stop <= high_start; "
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
        """The rules and black lists, ready to be asked. Raises ``Refused`` for a bad pattern."""
        return PlacementRules(self.rules, self.blacklist_topics, self.blacklist_brokers)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; ``from_dict`` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BalanceSettings:
        """Settings from JSON, defaults for what is absent.

        Raises ``Refused`` for a name nobody knows (it would be silently without effect) and for
        values that are out of range.
        """
        plain = _known(cls, values)
        if "weights" in plain:
            plain["weights"] = Weights(**_numbers(Weights, plain["weights"]))
        if "full" in plain:
            plain["full"] = Full(**_numbers(Full, plain["full"]))
        if "rules" in plain:
            plain["rules"] = tuple(PlacementRule.from_dict(rule) for rule in plain["rules"])
        for name in ("blacklist_topics", "blacklist_brokers"):
            if name in plain:
                plain[name] = tuple(str(pattern) for pattern in plain[name])
        try:
            if "ranking" in plain:
                plain["ranking"] = RankingName(plain["ranking"])
        except ValueError as error:
            known = ", ".join(RankingName)
            raise Refused(f"{plain['ranking']!r} is not a ranking; there are {known}") from error
        for name in ("enabled", "dry_run"):
            if not isinstance(plain.get(name, True), bool):
                raise Refused(f"{name} is true or false, not {plain[name]!r}")
        for item in fields(cls):
            if item.type in ("float", "int") and item.name in plain:
                plain[item.name] = _number(item.name, plain[item.name], whole=item.type == "int")
        return cls(**plain)


def _known(kind: type[Any], values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise Refused(f"{values!r} is not a set of named values")
    names = {item.name for item in fields(kind)}
    if unknown := sorted(set(values) - names):
        raise Refused(
            f"there is no setting {', '.join(unknown)}; there are {', '.join(sorted(names))}"
        )
    return dict(values)


def _numbers(kind: type[Any], values: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(name, value) for name, value in _known(kind, values).items()}


def _number(name: str, value: Any, *, whole: bool = False) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refused(f"{name} is a number, not {value!r}")
    if whole and value != int(value):
        raise Refused(f"{name} is a whole number, not {value!r}")
    return int(value) if whole else float(value)
