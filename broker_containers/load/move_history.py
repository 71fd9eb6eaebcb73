"""What the leader moved and what it left where it was, for people: newest first, and bounded.

Unlike the log of moves, it decides nothing. It has wall-clock times, takeovers of dead brokers'
topics, moves that were given up, and of each round of rebalancing the counted reasons not to move.
The leader stores it, so that the next one continues it; what a leader did in its last seconds may
be missing.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sulina.errors import Refused
from sulina.operations.cluster import PastMoves, PastRounds

MOST_MOVES: Final = 300
MOST_ROUNDS: Final = 100
MOST_NAMES: Final = 20
"""A dead broker may have owned thousands of topics: the others are only counted."""
MAX_BYTES: Final = 256 * 1024
"""Maximum size of the stored history; a metadata value must stay below about a megabyte."""

OneMove = tuple[str, str, str, float]
"""A topic, its source, its target, and its cost."""


@dataclass(slots=True)
class MoveHistory:
    """The newest moves and rounds, newest first."""

    moves: deque[PastMoves] = field(default_factory=lambda: deque(maxlen=MOST_MOVES))
    rounds: deque[PastRounds] = field(default_factory=lambda: deque(maxlen=MOST_ROUNDS))
    news: int = 0
    """Grows with every row, so that the history is only stored if it has new ones."""

    def moved(self, moves: Iterable[OneMove], why: str, at_us: int) -> None:
        """Add moves that were started, made, or given up."""
        together: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for topic, source, target, cost in moves:
            together[source, target][topic] = cost
        for (source, target), some in together.items():
            names, cost = tuple(some)[:MOST_NAMES], round(sum(some.values()), 6)
            self.moves.appendleft(PastMoves(at_us, why, source, target, len(some), names, cost))
            self.news += 1

    def planned(self, moved: int, reasons: Mapping[str, int], at_us: int) -> None:
        """Add a round; if it moved nothing, like the one before, to that one's row."""
        last = self.rounds[0] if self.rounds else None
        now = PastRounds(at_us, at_us, 1, moved, dict(sorted(reasons.items())))
        if last and not moved and not last.moved and last.reasons.keys() == now.reasons.keys():
            self.rounds[0] = replace(now, since_us=last.since_us, rounds=last.rounds + 1)
            return
        self.rounds.appendleft(now)
        self.news += 1

    def to_bytes(self, *, max_bytes: int = MAX_BYTES) -> bytes:
        """JSON with as many of the newest moves as fit."""
        rounds = [asdict(each) for each in self.rounds]
        room = max_bytes - len(_json({"v": 1, "rounds": rounds, "moves": []}))
        kept = []
        for each in self.moves:
            row = asdict(each)
            room -= len(_json(row)) + 1
            if room < 0:
                break
            kept.append(row)
        return _json({"v": 1, "rounds": rounds, "moves": kept})

    @classmethod
    def from_bytes(cls, data: bytes) -> MoveHistory:
        """Read what another leader wrote. Raises ``Refused`` if it is not a history."""
        try:
            document: dict[str, Any] = json.loads(data)
            found = cls()
            found.moves.extend(
                PastMoves(**{**row, "names": tuple(row["names"])}) for row in document["moves"]
            )
            found.rounds.extend(PastRounds(**row) for row in document["rounds"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(
                f"this is not a history of moves ({error!r}): the leader starts a new one"
            ) from error
        return found


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
