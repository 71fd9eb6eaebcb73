"""Recent moves, for cooldowns, limits and hysteresis.

The leader stores it next to the assignments (it is small and bounded), so that a new leader
continues instead of moving the same topics again.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from broker_containers.load.decision import Move, RebalancePlan
from sulina.errors import Refused

MAX_MOVES = 50_000
MAX_BYTES = 512 * 1024
"""Maximum size of the stored log; a metadata value must stay below about a megabyte."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A completed move, in seconds of the log's clock."""

    at: float
    topic: str
    source: str
    target: str
    cost: float


@dataclass(slots=True)
class MoveLog:
    """Recent moves, oldest first, and which brokers have been out of balance since when."""

    outside: dict[str, float] = field(default_factory=dict)
    _moves: deque[Moved] = field(default_factory=lambda: deque(maxlen=MAX_MOVES))

    def commit(self, plan: RebalancePlan, now: float) -> None:
        """Record a plan that is carried out. Do not commit a dry run."""
        self.outside = dict(plan.outside)
        self.record(plan.moves, now)

    def record(self, moves: Iterable[Move], now: float) -> None:
        """Record moves of any kind: drains and failovers start cooldowns as well."""
        self._moves.extend(
            Moved(now, move.topic, move.source, move.target, move.cost) for move in moves
        )

    def forget_before(self, moment: float) -> None:
        """Drop moves that are too old to matter."""
        while self._moves and self._moves[0].at < moment:
            self._moves.popleft()

    def since(self, moment: float) -> list[Moved]:
        """Moves at or after ``moment``, oldest first."""
        found: list[Moved] = []
        for move in reversed(self._moves):
            if move.at < moment:
                break
            found.append(move)
        found.reverse()
        return found

    def to_bytes(self, *, now: float, max_bytes: int = MAX_BYTES) -> bytes:
        """Compact JSON with ages instead of times: the next leader has another clock.

        Keeps as many of the newest moves as fit: the oldest matter least.
        """
        head: dict[str, Any] = {
            "v": 1,
            "outside": {one: round(now - since, 1) for one, since in self.outside.items()},
        }
        room = max_bytes - len(_json(head))
        kept: deque[list[Any]] = deque()
        for one in reversed(self._moves):
            row = [round(now - one.at, 1), one.topic, one.source, one.target, one.cost]
            room -= len(_json(row)) + 1
            if room < len('"moves":[],'):
                break
            kept.appendleft(row)
        return _json({**head, "moves": list(kept)})

    @classmethod
    def from_bytes(cls, data: bytes, *, now: float) -> MoveLog:
        """Read what another leader wrote. Raises ``Refused`` if it is not a log."""
        try:
            document: dict[str, Any] = json.loads(data)
            log = cls({str(one): now - float(age) for one, age in document["outside"].items()})
            log._moves.extend(
                Moved(now - float(age), str(topic), str(source), str(target), float(cost))
                for age, topic, source, target, cost, *_ in document["moves"]
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(
                f"this is not a log of moves ({error!r}): start with an empty one, "
                "which only resets the cooldowns"
            ) from error
        return log


@dataclass(frozen=True, slots=True)
class RecentMoves:
    """The log's state at one moment, indexed for fast lookups."""

    cooling: frozenset[str]
    """Topics that were moved too recently."""
    left: frozenset[tuple[str, str]]
    """Topics, and the brokers they left recently."""
    givers: frozenset[str]
    """Brokers that gave topics away recently, and so receive none."""
    takers: frozenset[str]
    """Brokers that received topics recently, and so give none away."""
    moves: int
    """Within the current interval."""
    cost: float
    by_broker: Counter[str]

    @classmethod
    def of(
        cls,
        log: MoveLog,
        now: float,
        *,
        topic_cooldown: float,
        return_time: float,
        broker_cooldown: float,
        interval: float,
    ) -> RecentMoves:
        """The state of ``log`` at ``now``."""
        longest = max(topic_cooldown, return_time, broker_cooldown, interval)
        moves = log.since(now - longest)

        def younger(age: float) -> list[Moved]:
            return [move for move in moves if now - move.at < age]

        brokers = younger(broker_cooldown)
        window = younger(interval)
        by_broker = Counter(move.source for move in window)
        by_broker.update(move.target for move in window)
        return cls(
            cooling=frozenset(move.topic for move in younger(topic_cooldown)),
            left=frozenset((move.topic, move.source) for move in younger(return_time)),
            givers=frozenset(move.source for move in brokers),
            takers=frozenset(move.target for move in brokers),
            moves=len(window),
            cost=sum(move.cost for move in window),
            by_broker=by_broker,
        )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
