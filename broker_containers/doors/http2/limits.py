"""What a client may do on one connection, and when it has done too much of what leads nowhere.

A request that is answered is work that was asked for. Resets, pings, settings and frames without
content are not: each of them spends something that time and answered requests give back. Who has
nothing left loses the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_containers.doors.http2.frames import DEFAULT_FRAME_BYTES, ConnectionFault, ErrorCode

_SAVED: Final = 4000.0
_PER_SECOND: Final = 400.0
ANSWERED: Final = 8.0
SENT: Final = 4.0
"""Given back for a request that was answered, and for a frame of data that was sent."""


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Bytes and numbers, for one connection."""

    max_streams: int = 1024
    """Requests in progress; further ones are refused, and clients wait."""
    max_frame_bytes: int = DEFAULT_FRAME_BYTES
    """Of a frame that the client sends."""
    sent_frame_bytes: int = 64 << 10
    """The same for this side, if the client accepts it."""
    header_bytes: int = 64 << 10
    """Of the headers of a request, compressed or not."""
    max_continuations: int = 32
    """Frames that continue one header block."""
    connection_window: int = 4 << 20
    """Data that a client may send before this side has read what came before, once it is known;
    until then it is 64 KiB."""
    stream_window: int = 64 << 10
    """Data of a request that may arrive before more is asked for."""
    queued_bytes: int = 64 << 20
    """Responses that wait for the client's permission to send; beyond it the connection ends."""


class Calm:
    """How much a connection may still do that leads nowhere."""

    __slots__ = ("_left", "_refilled")

    def __init__(self) -> None:
        self._left = _SAVED
        self._refilled = 0.0

    def spend(self, cost: float, what: str) -> None:
        """Raise ``ConnectionFault`` if there is nothing left."""
        self._left -= cost
        if self._left < 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what}")

    def give_back(self, amount: float) -> None:
        self._left = min(self._left + amount, _SAVED)

    def tick(self, now: float) -> None:
        """Time has passed: ``now`` in seconds."""
        passed = now - self._refilled
        if passed >= 0.1:
            self._refilled = now
            self._left = min(self._left + passed * _PER_SECOND, _SAVED)
