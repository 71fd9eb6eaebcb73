"""What the client needs from the machine: a clock, a network and randomness.

``sulina.connect`` fills these with the real ones; a simulation gives its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from sulina.runtime.seam import Clock


class Network(Protocol):
    """Makes connections."""

    async def dial(
        self, protocol: asyncio.BufferedProtocol, host: str, port: int, *, secure: bool
    ) -> None:
        """Connect ``protocol`` to a peer; its ``connection_made`` was called when this returns.

        Raises ``Unavailable`` when nobody is there (``NobodyThere`` if the machine itself says so)
        and ``Refused`` when the two sides can't trust each other. The caller sets the deadline, by
        cancelling.
        """
        ...


class Randomness(Protocol):
    """The part of ``random.Random`` that the client uses: for jitter, and for unique names."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Runtime:
    """The three together."""

    clock: Clock
    network: Network
    random: Randomness

    def unique_name(self, prefix: str) -> str:
        """A name that nobody else has."""
        return f"{prefix}-{self.random.getrandbits(64):016x}"
