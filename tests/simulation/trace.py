"""The events of a run, in order: short lines with the virtual time, and a hash over them."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from tests.simulation.loop import SimLoop


class Violation(AssertionError):
    """An invariant does not hold."""


class Trace:
    """Keeps the last ``keep`` lines (None: all), and hashes every line."""

    def __init__(self, loop: SimLoop, keep: int | None = 400) -> None:
        self._loop = loop
        self._hash = blake2b(digest_size=12)
        self.lines: deque[str] = deque(maxlen=keep)
        self.count = 0

    def note(self, what: str) -> None:
        line = f"{self._loop.time():10.6f} {what}"
        self._hash.update(line.encode())
        self.lines.append(line)
        self.count += 1

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
