"""Rates of publishing and dispatching: how long to wait after a frame.

Each broker counts for itself. Frames are counted whole: nothing is done per record, and nothing at
all while no rate is limited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker_containers.quotas.token_bucket import TokenBucket
from sulina.metadata.keys.quotas import QuotaScope

MOST_SECONDS: Final = 5.0
"""The longest wait for one frame: clients take a broker that does not read for a dead one."""
_REMEMBERED: Final = 10_000
Subject = tuple[QuotaScope, str]


class Direction(StrEnum):
    """Which way records go."""

    PUBLISH = "publish"
    DISPATCH = "dispatch"


@dataclass(slots=True)
class _LimitedRate:
    bucket: TokenBucket
    second: int = 0
    count: int = 0
    """Taken within ``second``."""
    before: int = 0
    """Taken within the second before."""

    def take(self, amount: int, now: float) -> float:
        self._advance(int(now))
        self.count += amount
        return self.bucket.take(amount, now)

    def last_second(self, now: float) -> int:
        self._advance(int(now))
        return self.before

    def _advance(self, second: int) -> None:
        if second != self.second:
            self.before = self.count if second == self.second + 1 else 0
            self.second, self.count = second, 0


@dataclass(slots=True, eq=False)
class Rates:
    """The limited rates of all subjects; ``limit`` gives a subject's limit by name, 0 for none."""

    limit: Callable[[Subject, str], int]
    _found: dict[tuple[Subject, Direction], dict[str, _LimitedRate]] = field(default_factory=dict)

    def forget(self) -> None:
        """Limits have changed."""
        self._found.clear()

    def take(
        self, direction: Direction, subject: Subject, records: int, bytes_: int, now: float
    ) -> tuple[float, str]:
        """Seconds to wait after these records, at most ``MOST_SECONDS``, and for which limit."""
        longest, why = 0.0, ""
        for name, rate in self._of(subject, direction, now).items():
            wait = rate.take(bytes_ if name.endswith("_bytes") else records, now)
            if wait > longest:
                longest, why = min(wait, MOST_SECONDS), name
        return longest, why

    def last_second(self, subject: Subject, name: str, now: float) -> int | None:
        """What passed in the last whole second; None if the rate is not limited."""
        direction = Direction(name.partition("_")[0])
        rate = self._of(subject, direction, now).get(name)
        return None if rate is None else rate.last_second(now)

    def _of(self, subject: Subject, direction: Direction, now: float) -> dict[str, _LimitedRate]:
        found = self._found.get((subject, direction))
        if found is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            names = (f"{direction}_bytes", f"{direction}_records")
            limits = {name: self.limit(subject, name) for name in names}
            found = self._found[subject, direction] = {
                name: _LimitedRate(TokenBucket(limit, now))
                for name, limit in limits.items()
                if limit
            }
        return found
