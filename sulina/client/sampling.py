"""Which frames of this process are traced, and when they passed the client.

Only ``sulina bench --trace`` sets ``sampler``; otherwise a test for None per frame is all it costs.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from sulina.runtime import stages
from sulina.runtime.stages import Stage, Stamp

_MOST: Final = 20_000
"""Traces kept; older ones are dropped."""


class FrameSampler:
    """Traces at most ``per_second`` frames per second."""

    def __init__(self, per_second: int) -> None:
        self._interval_ns = 1_000_000_000 // per_second
        self._next_ns = 0
        self._packed: dict[int, tuple[bytes, int]] = {}
        self._unanswered: dict[tuple[object, int], int] = {}
        self.replies: deque[tuple[int, int]] = deque(maxlen=_MOST)
        """When a traced frame was packed, and when its acknowledgement arrived."""
        self._delivered: dict[tuple[str, int], list[Stamp]] = {}

    # ---- of producers ----

    def packed(self, frame: bytes) -> None:
        """A frame was packed: decide whether to trace it."""
        now = stages.now_ns()
        if now >= self._next_ns:
            self._next_ns = now + self._interval_ns
            self._packed = {id(frame): (frame, now)}

    def sent(self, producer: object, number: int, frame: bytes) -> bytes:
        """What to send with a frame; empty if it is not traced."""
        _, packed = self._packed.pop(id(frame), (b"", 0))
        if not packed:
            return b""
        self._unanswered[producer, number] = packed
        stamps = (Stamp(Stage.PACKED, packed), Stamp(Stage.SENT, stages.now_ns()))
        return stages.pack(stamps)

    def replied(self, producer: object, first: int, count: int) -> None:
        """Frames were acknowledged."""
        now = stages.now_ns()
        for key in [key for key in self._unanswered if key[0] is producer]:
            if key[1] < first + count:
                packed = self._unanswered.pop(key)
                if key[1] >= first:
                    self.replies.append((packed, now))

    # ---- of consumers ----

    def delivered(self, topic: str, base_offset: int, trace: bytes) -> None:
        """A traced frame arrived."""
        if len(self._delivered) < _MOST:
            stamps = [*stages.unpack(trace), Stamp(Stage.DELIVERED, stages.now_ns())]
            self._delivered[topic, base_offset] = stamps

    def taken(self, topic: str, base_offset: int, at_ns: int) -> list[Stamp] | None:
        """The application takes a frame; returns its times if it was traced."""
        stamps = self._delivered.pop((topic, base_offset), None)
        return None if stamps is None else [*stamps, Stamp(Stage.TAKEN, at_ns)]


sampler: FrameSampler | None = None
"""Traces the frames of this process."""


def start(per_second: int) -> FrameSampler:
    """Trace the frames of all producers and consumers of this process."""
    global sampler
    sampler = FrameSampler(per_second)
    return sampler
