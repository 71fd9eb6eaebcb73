"""Received records as frames of another producer, numbered by their offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sulina.client.batching import RECORD_OVERHEAD
from sulina.client.message import Batch
from sulina.wire import selection
from sulina.wire.compression import Compression
from sulina.wire.encode import Origin, encode_frame


@dataclass(frozen=True, slots=True)
class ForwardedRun:
    """Records with consecutive offsets that become one frame."""

    first: int
    """The offset of the first one, and its sequence number."""
    payloads: list[bytes]
    keys: list[bytes | None] | None
    attributes: list[dict[str, str]] | None
    times: list[int]
    due_us: int | None
    expires_us: int | None
    schema_id: int
    schema_version: int
    cost: int
    largest: int
    """The cost of the largest record."""

    def encode(self, origin: Origin, now_us: int, compression: Compression) -> bytes:
        """The frame. A delivery time in the past is left out."""
        return encode_frame(
            origin,
            self.first,
            self.payloads,
            self.times,
            keys=self.keys,
            attributes=self.attributes,
            compression=compression,
            due_us=self.due_us if self.due_us is not None and self.due_us > now_us else None,
            expires_us=self.expires_us,
        )


def forwarded_runs(batch: Batch, start: int, most: int) -> Iterator[ForwardedRun]:
    """The records of ``batch`` from the offset ``start`` on, as frames of at most ``most`` bytes.

    A record that is larger than that becomes a run of its own.
    """
    base, frame = batch.frame.header.base_offset, batch.frame
    wanted = selection.whole(frame.count) if batch.mask is None else batch.mask
    skipped = min(max(start - base, 0), frame.count)
    for first, last in selection.ranges(wanted >> skipped << skipped):
        costs = _costs(batch, first, last + 1)
        at = first
        while at <= last:
            end, cost = at, 0
            while end <= last and (end == at or cost + costs[end - first] <= most):
                cost += costs[end - first]
                end += 1
            yield ForwardedRun(
                base + at,
                frame.payloads[at:end],
                None if frame.keys is None else frame.keys[at:end],
                None if frame.attributes is None else frame.attributes[at:end],
                frame.times[at:end],
                frame.due_us,
                frame.expires_us,
                frame.header.schema_id,
                frame.header.schema_version,
                cost,
                max(costs[at - first : end - first]),
            )
            at = end


def _costs(batch: Batch, first: int, end: int) -> list[int]:
    frame = batch.frame
    costs = [len(payload) + RECORD_OVERHEAD for payload in frame.payloads[first:end]]
    if frame.keys is not None:
        costs = [
            cost + len(key or b"") for cost, key in zip(costs, frame.keys[first:end], strict=True)
        ]
    if frame.attributes is not None:
        for at, given in enumerate(frame.attributes[first:end]):
            costs[at] += sum(
                len(name.encode()) + len(text.encode()) + 2 * RECORD_OVERHEAD
                for name, text in given.items()
            )
    return costs
