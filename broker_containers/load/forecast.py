"""Daily load profiles, and a forecast from them.

The forecast is simple: the current level, scaled by how the target hour of the day usually compares
with the current hour. Without data for both hours it is the current level.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence

HOURS = 24
MAX_SWING = 4.0
"""The forecast is at most this multiple of the current level, and at least its inverse."""

_Between = tuple[int, int, float]
"""Two neighbouring hours, and how far a time is between their middles."""


class Profile:
    """The usual level of each hour of the day (UTC)."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels = array("f", [-1.0]) * HOURS

    def add(self, hour: float, level: float, share: float) -> None:
        """Mix a sample into the hour's level with weight ``share`` (0 to 1)."""
        place = int(hour) % HOURS
        old = self._levels[place]
        self._levels[place] = level if old < 0 else old + share * (level - old)

    def swing(self, now: _Between, then: _Between) -> float | None:
        """Usual ratio of the level at ``then`` to that at ``now``; None if unknown."""
        levels = self._levels
        one, two, part = now
        three, four, later_part = then
        if min(levels[one], levels[two], levels[three], levels[four]) < 0:
            return None
        present = levels[one] + part * (levels[two] - levels[one])
        later = levels[three] + later_part * (levels[four] - levels[three])
        if present <= 0:
            return None
        return min(MAX_SWING, max(1 / MAX_SWING, later / present))


class Forecast:
    """The factor by which load is expected to change between two times of day."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Profile,
        wall_us: int,
        horizon_seconds: float,
    ) -> None:
        hour = hour_of(wall_us)
        self._now, self._then = between(hour), between(hour + horizon_seconds / 3600)
        self._profiles = profiles
        self._usual = cluster.swing(self._now, self._then)

    @property
    def known(self) -> bool:
        """Whether any data makes the future differ from the present."""
        return self._usual is not None

    def swing(self, topic: str) -> float:
        """The factor of one topic: from its own profile, or the cluster's, or 1."""
        profile = self._profiles.get(topic)
        own = profile.swing(self._now, self._then) if profile is not None else None
        return own or self._usual or 1.0

    def growth(self, topics: Sequence[str], costs: Sequence[float]) -> float:
        """The factor of several topics together."""
        total = sum(costs)
        if total <= 0 or not self.known:
            return 1.0
        swing = self.swing
        pairs = zip(topics, costs, strict=True)
        return sum([cost * swing(topic) for topic, cost in pairs]) / total


def between(hour: float) -> _Between:
    """The two hours whose middles surround ``hour``."""
    middle = hour - 0.5
    before = math.floor(middle)
    return before % HOURS, (before + 1) % HOURS, middle - before


def hour_of(wall_us: int) -> float:
    """The hour of the day (UTC) with its fraction."""
    return wall_us / 3.6e9 % HOURS
