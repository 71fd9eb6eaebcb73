"""Chooses which topics to move away from a broker.

Its topics are sorted once by cost; each choice is a binary search, so that a plan for a million
topics examines only those of overloaded brokers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection

from broker_containers.load.decision import SkipReason
from broker_containers.load.rules import PlacementRules
from broker_containers.load.view import BrokerLoad


class SourceTopics:
    """The topics of one broker that may move, by cost."""

    def __init__(
        self,
        broker: BrokerLoad,
        rules: PlacementRules,
        staying: Collection[str],
        reasons: Counter[SkipReason],
        *,
        least: float,
    ) -> None:
        """Topics that may not move are counted in ``reasons``.

        ``staying`` were moved recently; topics that cost less than ``least`` do not move.
        """
        chosen: list[tuple[float, str]] = []
        fixed = rules.fixed
        for name, cost in zip(broker.topics, broker.costs, strict=True):
            if name in staying:
                reasons[SkipReason.TOPIC_COOLDOWN] += 1
            elif fixed(name):
                reasons[SkipReason.TOPIC_BLACKLISTED] += 1
            elif cost < least:
                reasons[SkipReason.TOO_SMALL] += 1
            else:
                chosen.append((cost, name))
        chosen.sort()
        self._costs = [cost for cost, _ in chosen]
        self._names = [name for _, name in chosen]

    def __len__(self) -> int:
        return len(self._costs)

    def fitting(self, need: float, most: float) -> int | None:
        """Index of the topic that best covers ``need`` with a cost of at most ``most``.

        Best is one that covers it alone with little excess, then the largest below it, then the
        smallest above it.
        """
        costs = self._costs
        end = bisect_right(costs, most)
        place = bisect_left(costs, need, 0, end)
        if place < end and (place == 0 or costs[place] <= 1.25 * need):
            return place
        return place - 1 if place > 0 else None

    def nearest(self, cost: float) -> list[int]:
        """Indexes of the topics next below and next above ``cost``."""
        place = bisect_left(self._costs, cost)
        return [one for one in (place - 1, place) if 0 <= one < len(self._costs)]

    def at(self, place: int) -> tuple[str, float]:
        """Name and cost of the topic at ``place``."""
        return self._names[place], self._costs[place]

    def drop(self, place: int) -> None:
        """Remove a topic that was taken, or cannot be."""
        del self._costs[place], self._names[place]
