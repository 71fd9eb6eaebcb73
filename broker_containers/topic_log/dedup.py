"""Producer de-duplication: the last sequence of each producer, stored and being written.

Bounded: producers that stored nothing for the longest time are forgotten.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from enum import Enum, auto

from sulina.errors import CorruptFrame
from sulina.wire.header import FrameHeader

_ENTRY = struct.Struct("<Qq")


class Verdict(Enum):
    """What a frame is, judged by its producer's sequence."""

    NEW = auto()
    STORED = auto()
    """A repeat of a durable frame."""
    UNDER_WAY = auto()
    """A repeat of a frame that is being written."""
    OVERLAPS = auto()
    """Partly stored before, so it is not a repeat of a frame sent earlier."""


class Dedup:
    """Last sequences by producer id."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._stored: OrderedDict[int, int] = OrderedDict()
        self._sent: dict[int, int] = {}

    def judge(self, header: FrameHeader) -> Verdict:
        """Classify a frame before it is appended."""
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
        """Appends failed, or the log was read back: only stored sequences count."""
        self._sent.clear()

    def last_sequence(self, producer: int) -> int:
        """A producer's highest sequence, stored or being written; -1 if there is none."""
        return self._sent.get(producer, self._stored.get(producer, -1))

    def snapshot(self) -> bytes:
        """The stored sequences, for the control frame of the next ledger."""
        return b"".join(_ENTRY.pack(producer, last) for producer, last in self._stored.items())

    def restore(self, snapshot: bytes) -> None:
        """Replace the state with a snapshot. Raises ``CorruptFrame`` if it cannot be read."""
        if len(snapshot) % _ENTRY.size:
            raise CorruptFrame("the producers' sequences in a control frame cannot be read")
        self._stored = OrderedDict(_ENTRY.iter_unpack(snapshot))
        self._forget_oldest()
        self._sent.clear()
