"""Producer de-duplication: the last sequence of each producer, durable and under way.

Bounded: the producers that have stored nothing for longest are forgotten.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from enum import Enum, auto

from sulina.errors import CorruptFrame
from sulina.wire.header import FrameHeader

_ENTRY = struct.Struct("<Qq")


class Verdict(Enum):
    """What a frame is, by its producer's sequence."""

    NEW = auto()
    STORED = auto()
    """A repeat of what is durable."""
    UNDER_WAY = auto()
    """A repeat of what is being written."""
    OVERLAPS = auto()
    """Part of it was stored before: never the frame that was sent first."""


class Dedup:
    """Last sequences by producer id."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._stored: OrderedDict[int, int] = OrderedDict()
        self._sent: dict[int, int] = {}

    def judge(self, header: FrameHeader) -> Verdict:
        """Look at a frame before it is appended."""
        producer = header.producer_id
        stored = self._stored.get(producer, -1)
        sent = self._sent.get(producer, stored)
        if header.first_sequence > sent:
            return Verdict.NEW
        if header.last_sequence <= stored:
            return Verdict.STORED
        return Verdict.UNDER_WAY if header.last_sequence <= sent else Verdict.OVERLAPS

    def sending(self, header: FrameHeader) -> None:
        """The frame is being appended."""
        self._sent[header.producer_id] = header.last_sequence

    def stored(self, header: FrameHeader) -> None:
        """The frame is durable."""
        producer, last = header.producer_id, header.last_sequence
        if last > self._stored.get(producer, -1):
            self._stored[producer] = last
        self._stored.move_to_end(producer)
        if self._sent.get(producer) == last:
            del self._sent[producer]
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._stored) > self._limit:
            self._stored.popitem(last=False)

    def nothing_under_way(self) -> None:
        """What was being appended failed or was read back: only the stored state counts."""
        self._sent.clear()

    def last_sequence(self, producer: int) -> int:
        """The highest sequence stored or under way for a producer, -1 if there is none."""
        return self._sent.get(producer, self._stored.get(producer, -1))

    def snapshot(self) -> bytes:
        """The stored state, for the start of the next ledger."""
        return b"".join(_ENTRY.pack(producer, last) for producer, last in self._stored.items())

    def restore(self, snapshot: bytes) -> None:
        """Replace the state by a snapshot. Raises ``CorruptFrame`` if it is none."""
        if len(snapshot) % _ENTRY.size:
            raise CorruptFrame("the producers' sequences in a control frame can't be read")
        self._stored = OrderedDict(_ENTRY.iter_unpack(snapshot))
        self._forget_oldest()
        self._sent.clear()
