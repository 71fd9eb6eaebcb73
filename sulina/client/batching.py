"""Collects records until they are packed into a frame. Pure: no clock, task or connection."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from sulina.client.delays import Timing
from sulina.client.tickets import FrameOutcome
from sulina.wire.compression import Compression
from sulina.wire.encode import MAX_TIME_SPAN_US, Origin, encode_frame

RECORD_OVERHEAD: Final = 8
"""The cost of a record in a frame beyond its own bytes: an offset and a time."""
_HALF_SPAN: Final = MAX_TIME_SPAN_US // 2

Attributes = Mapping[str, str]


class OpenBatch:
    """The records of a frame that is not packed yet. ``cost`` counts against the producer's limit.

    Unneeded columns are not kept: keys and attributes until the first record has some, times as
    long as all are the same.
    """

    __slots__ = (
        "attributes",
        "cost",
        "first_time",
        "keys",
        "outcome",
        "payloads",
        "times",
        "timing",
    )

    def __init__(self, topic: str, first_time: int, timing: Timing | None = None) -> None:
        self.outcome = FrameOutcome(topic)
        self.payloads: list[bytes] = []
        self.keys: list[bytes | None] | None = None
        self.attributes: list[Attributes | None] | None = None
        self.times: list[int] | None = None
        self.first_time = first_time
        self.timing = timing
        self.cost = 0

    def takes(self, time: int, timing: Timing | None = None) -> bool:
        """Whether a record with these times fits into the same frame."""
        return timing == self.timing and -_HALF_SPAN < time - self.first_time < _HALF_SPAN

    def add(
        self, payload: bytes, key: bytes | None, attributes: Attributes | None, time: int, cost: int
    ) -> int:
        """Add one record; returns its index in the frame."""
        payloads = self.payloads
        index = len(payloads)
        if key is not None and self.keys is None:
            self.keys = [None] * index
        if attributes and self.attributes is None:
            self.attributes = [None] * index
        if self.times is not None:
            self.times.append(time)
        elif time != self.first_time:
            self.times = [self.first_time] * index
            self.times.append(time)
        payloads.append(payload)
        if self.keys is not None:
            self.keys.append(key)
        if self.attributes is not None:
            self.attributes.append(attributes)
        self.cost += cost
        return index

    def extend(
        self,
        payloads: Sequence[bytes],
        keys: Sequence[bytes | None] | None,
        attributes: Sequence[Attributes | None] | None,
        time: int,
        cost: int,
    ) -> int:
        """Add many records with one publish time; returns the index of the last."""
        before, count = len(self.payloads), len(payloads)
        if keys is not None and self.keys is None:
            self.keys = [None] * before
        if attributes is not None and self.attributes is None:
            self.attributes = [None] * before
        if self.times is None and time != self.first_time:
            self.times = [self.first_time] * before
        self.payloads += payloads
        if self.times is not None:
            self.times += [time] * count
        if self.keys is not None:
            self.keys += keys if keys is not None else [None] * count
        if self.attributes is not None:
            self.attributes += attributes if attributes is not None else [None] * count
        self.cost += cost
        return before + count - 1

    def encode(self, origin: Origin, first_sequence: int, compression: Compression) -> bytes:
        """The packed frame."""
        due_us, expires_us = self.timing or (None, None)
        return encode_frame(
            origin,
            first_sequence,
            self.payloads,
            self.first_time if self.times is None else self.times,
            keys=self.keys,
            attributes=self.attributes,
            compression=compression,
            due_us=due_us,
            expires_us=expires_us,
        )


def fitting(totals: Sequence[int], start: int, room: int, most: int) -> int:
    """The end of the run of records from ``start`` on that fits into a frame.

    ``totals`` are running totals of the records' costs; ``room`` is the cost that the frame still
    takes, ``most`` the number of records.
    """
    before = totals[start - 1] if start else 0
    return min(bisect_right(totals, before + room, lo=start), start + most)
