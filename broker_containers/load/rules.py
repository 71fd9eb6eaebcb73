"""Placement rules: affinity of topics to brokers, and topics that are kept apart.

A rule selects topics by a pattern (``/payments/*``; ``*`` matches anything) and states which labels
a broker must have or must not have, and whether the topics go to different brokers. Strict rules
are never broken: a topic that fits nowhere stays unassigned, with its reason counted. The
partitions of a topic are always kept apart, as far as there are enough brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from sulina.errors import Refused

_PARTITION = "-part-"


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """One rule; labels are words such as ``zone=a`` or ``spot``."""

    pattern: str
    require: tuple[str, ...] = ()
    """Labels that a broker must have."""
    avoid: tuple[str, ...] = ()
    """Labels that a broker must not have."""
    apart: bool = False
    """Whether the topics of this rule go to different brokers, as far as there are enough."""
    strict: bool = True
    """Unless strict, a topic is placed against the rule rather than nowhere."""

    def __post_init__(self) -> None:
        if not self.pattern.startswith("/"):
            raise Refused(
                f"{self.pattern!r} matches no topic: start with '/', for example /payments/*"
            )
        if not (self.require or self.avoid or self.apart):
            raise Refused(f"the rule for {self.pattern} says nothing: give require, avoid or apart")
        if both := sorted(set(self.require) & set(self.avoid)):
            raise Refused(f"the rule for {self.pattern} requires and avoids {', '.join(both)}")

    @classmethod
    def from_dict(cls, values: Any) -> PlacementRule:
        """A rule from JSON. Raises ``Refused`` for what is not one."""
        if isinstance(values, PlacementRule):
            return values
        names = ("pattern", "require", "avoid", "apart", "strict")
        if not isinstance(values, Mapping) or set(values) - set(names) or "pattern" not in values:
            raise Refused(f"{values!r} is not a rule: give pattern and {', '.join(names[1:])}")
        return cls(
            str(values["pattern"]),
            tuple(str(label) for label in values.get("require", ())),
            tuple(str(label) for label in values.get("avoid", ())),
            bool(values.get("apart", False)),
            bool(values.get("strict", True)),
        )

    def fits(self, labels: frozenset[str]) -> bool:
        """Whether a broker with ``labels`` may have the rule's topics."""
        return labels.issuperset(self.require) and labels.isdisjoint(self.avoid)


@dataclass(frozen=True, slots=True)
class BrokerRequirements:
    """What the rules require for one topic. Equal requirements allow the same brokers."""

    strict: tuple[PlacementRule, ...] = ()
    soft: tuple[PlacementRule, ...] = ()
    group: str | None = None
    """Topics of one group are kept apart."""

    def fits(self, labels: frozenset[str]) -> bool:
        """Whether no strict rule forbids a broker with ``labels``."""
        return all(rule.fits(labels) for rule in self.strict)

    def prefers(self, labels: frozenset[str]) -> bool:
        """Whether no rule forbids or advises against it."""
        return self.fits(labels) and all(rule.fits(labels) for rule in self.soft)


class PlacementRules:
    """All rules and blacklists, with compiled patterns."""

    def __init__(
        self,
        rules: Iterable[PlacementRule] = (),
        blacklist_topics: Iterable[str] = (),
        blacklist_brokers: Iterable[str] = (),
    ) -> None:
        self._rules = [(_compiled([rule.pattern]), rule) for rule in rules]
        self._topics = _compiled(blacklist_topics)
        self._brokers = _compiled(blacklist_brokers)

    @property
    def empty(self) -> bool:
        """Whether there is no rule about labels or groups."""
        return not self._rules

    def requirements(self, topic: str) -> BrokerRequirements:
        """What the rules require for ``topic``."""
        group = partition_group(topic)
        if not self._rules:
            return _FREE if group is None else BrokerRequirements(group=group)
        rules = [rule for pattern, rule in self._rules if pattern.fullmatch(topic)]
        for rule in rules:
            if rule.apart:
                group = group or rule.pattern
        bound = [rule for rule in rules if rule.require or rule.avoid]
        return BrokerRequirements(
            tuple(rule for rule in bound if rule.strict),
            tuple(rule for rule in bound if not rule.strict),
            group,
        )

    def group(self, topic: str) -> str | None:
        """The group of topics to keep apart that contains ``topic``, if any."""
        if not self._rules:
            return partition_group(topic)
        return self.requirements(topic).group

    def fixed(self, topic: str) -> bool:
        """Whether ``topic`` is never moved automatically."""
        return self._topics.fullmatch(topic) is not None

    def closed(self, broker: str) -> bool:
        """Whether ``broker`` receives no topics."""
        return self._brokers.fullmatch(broker) is not None


def partition_group(topic: str) -> str | None:
    """The topic of which ``topic`` is a partition, if it is one."""
    if _PARTITION not in topic:
        return None
    base, _, number = topic.rpartition(_PARTITION)
    return base if number.isdigit() else None


_FREE = BrokerRequirements()


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    parts = [translate(pattern) for pattern in patterns]
    return re.compile("|".join(parts) if parts else r"(?!)")
