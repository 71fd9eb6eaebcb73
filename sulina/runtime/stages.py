"""When single frames pass each stage between producer and consumer, for ``sulina bench --trace``.

A producer asks for it by sending its own times with a frame. Every stage that the frame passes adds
the monotonic time, and the delivery carries all of them to the consumer. In a process without such
frames ``traces`` is empty, and testing that is all it costs.

Times of different machines can't be compared: :func:`within` moves those of another machine to the
middle of the time that the call to it took.
"""

from __future__ import annotations

import struct
import time
import weakref
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

_MOST: Final = 256
"""Frames traced at a time in one process; further ones are not."""


class Stage(IntEnum):
    """The end of each stage, in the order in which a frame passes them; numbers on the wire."""

    PACKED = 1
    SENT = 2
    ARRIVED = 3
    APPENDED = 4
    TO_NODE = 5
    AT_NODE = 6
    GROUPED = 7
    WRITING = 8
    SYNCED = 9
    RESUMED = 10
    ANSWERED = 11
    FROM_NODE = 12
    CONFIRMED = 13
    REPLIED = 14
    DISPATCHED = 15
    DELIVERED = 16
    TAKEN = 17


class Stamp(NamedTuple):
    """The end of a stage, and when it was, in nanoseconds."""

    stage: int
    at_ns: int


_STAMP: Final = struct.Struct("<Bq")


class FrameTrace:
    """The times of one frame in this process and before it."""

    __slots__ = ("_alive", "answers", "sent", "sink", "stamps")

    def __init__(self, alive: weakref.ref[memoryview], stamps: list[Stamp]) -> None:
        self._alive = alive  # its callback ends the trace
        self.stamps = stamps
        self.sink: tuple[object, int] | None = None
        """The producer to reply to, and the frame's number there."""
        self.sent: dict[str, int] = {}
        """When it was sent to each storage node."""
        self.answers: list[list[Stamp]] = []
        """The times at each storage node that has answered, in the order of the answers."""

    def mark(self, stage: Stage, at_ns: int | None = None) -> None:
        """The frame has passed a stage, now or at ``at_ns``."""
        self.stamps.append(Stamp(stage, at_ns if at_ns is not None else now_ns()))


traces: Final[dict[int, FrameTrace]] = {}
"""The traced frames of this process, by the identity of their buffers. Test it before each call."""

last_write: tuple[int, int] = (0, 0)
"""Begin and end of the last write to a real disk, set while there are traced frames."""

now_ns: Final = time.monotonic_ns


def begin(frame: memoryview, stamps: bytes = b"") -> FrameTrace | None:
    """Trace a frame as long as its buffer exists; None if too many are traced."""
    if len(traces) >= _MOST:
        return None
    key = id(frame)
    trace = FrameTrace(weakref.ref(frame, lambda _: traces.pop(key, None)), unpack(stamps))
    traces[key] = trace
    return trace


def mark(frame: object, stage: Stage, at_ns: int | None = None) -> None:
    """A frame has passed a stage, now or at ``at_ns``; no effect if it is not traced."""
    trace = traces.get(id(frame))
    if trace is not None:
        trace.mark(stage, at_ns)


def mark_all(frames: Iterable[object], stage: Stage, at_ns: int | None = None) -> None:
    """The same for several frames at the same time."""
    at_ns = at_ns if at_ns is not None else now_ns()
    for frame in frames:
        mark(frame, stage, at_ns)


def end(frame: object) -> bytes:
    """Stop tracing a frame; returns its times to send on, empty if it was not traced."""
    trace = traces.pop(id(frame), None)
    return b"" if trace is None else pack(trace.stamps)


def replied(sink: object, first: int, count: int) -> None:
    """A producer gets the outcome of its frames with these numbers."""
    for trace in traces.values():
        if trace.sink is None or trace.sink[0] is not sink:
            continue
        if first <= trace.sink[1] < first + count:
            trace.mark(Stage.REPLIED)
            trace.sink = None


def sent_to(frame: object, node: str) -> bool:
    """A frame is sent to a storage node; whether it is traced."""
    trace = traces.get(id(frame))
    if trace is not None:
        trace.sent[node] = now_ns()
    return trace is not None


def answered_by(frame: object, node: str, stamps: str) -> None:
    """A storage node has stored a frame, and tells when it passed the stages there."""
    trace = traces.get(id(frame))
    if trace is not None and node in trace.sent:
        sent, now = trace.sent[node], now_ns()
        there = within(unpack(bytes.fromhex(stamps)), sent, now)
        trace.answers.append([Stamp(Stage.TO_NODE, sent), *there, Stamp(Stage.FROM_NODE, now)])


def stored_by(frame: object, quorum: int) -> None:
    """A frame has enough copies: keep the times of the node whose answer completed the quorum."""
    trace = traces.get(id(frame))
    if trace is not None and trace.answers:
        trace.stamps.extend(trace.answers[min(quorum, len(trace.answers)) - 1])


def within(stamps: Sequence[Stamp], after: int, before: int) -> list[Stamp]:
    """The stamps, moved to the middle of this time if some are outside of it."""
    if not stamps or (after <= stamps[0].at_ns and stamps[-1].at_ns <= before):
        return list(stamps)
    shift = (after + before - stamps[0].at_ns - stamps[-1].at_ns) // 2
    return [Stamp(stage, at_ns + shift) for stage, at_ns in stamps]


def pack(stamps: Iterable[Stamp]) -> bytes:
    """Stamps as bytes."""
    return b"".join([_STAMP.pack(*each) for each in stamps])


def unpack(stamps: bytes) -> list[Stamp]:
    """The stamps of :func:`pack`; bytes after the last whole one are ignored."""
    whole = len(stamps) // _STAMP.size * _STAMP.size
    return [Stamp(*each) for each in _STAMP.iter_unpack(stamps[:whole])]
