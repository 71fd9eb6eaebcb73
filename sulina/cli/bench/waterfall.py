"""Where the time of single records goes, between a producer and a consumer: a waterfall.

Pure. A trace has the time at which its frame left each stage. The time of a percentile is that of
the records around it, so that its stages add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sulina.runtime.stages import Stage, Stamp, within

_NAMES: Final = {
    Stage.PACKED: ("client batch", "until the producer packs the record into a frame"),
    Stage.SENT: ("client send", "until the frame is written to the socket"),
    Stage.ARRIVED: ("socket", "until the broker reads the frame"),
    Stage.APPENDED: ("door and topic", "checks, and waiting for a ledger"),
    Stage.TO_NODE: ("send queue", "until the frame is in a message to the storage node"),
    Stage.AT_NODE: ("network", "until the storage node has the message"),
    Stage.GROUPED: ("journal queue", "while the journal writes the group before"),
    Stage.WRITING: ("hand-over", "until the journal's thread begins"),
    Stage.SYNCED: ("write and sync", "of the disk"),
    Stage.RESUMED: ("hand-back", "until the event loop continues"),
    Stage.ANSWERED: ("answer queue", "until the storage node answers"),
    Stage.FROM_NODE: ("network back", "until the broker has the answer"),
    Stage.CONFIRMED: ("confirmation", "outcomes of the frames before it in the group"),
    Stage.REPLIED: ("reply", "until the producer's acknowledgement is written"),
    Stage.DISPATCHED: ("dispatch", "until the frame is written to the consumer's socket"),
    Stage.DELIVERED: ("delivery", "until the consumer's client reads it"),
    Stage.TAKEN: ("client", "until the application has the record"),
}
_BROKER: Final = range(Stage.ARRIVED, Stage.DELIVERED)
_ACKNOWLEDGED: Final = "acknowledged"
_MEDIAN: Final = (0.45, 0.55)
_TAIL: Final = (0.985, 0.995)
_FEWEST: Final = 5
"""Records that a percentile's stages are averaged over at least."""


@dataclass(frozen=True, slots=True)
class RecordTrace:
    """When a record was due, left each stage, and was acknowledged, in nanoseconds."""

    due_ns: int
    stamps: tuple[Stamp, ...]
    acknowledged_ns: int | None

    @classmethod
    def of(cls, due_ns: int, stamps: Sequence[Stamp], replies: Mapping[int, int]) -> RecordTrace:
        """``replies``: when frames were acknowledged, by the time at which they were packed."""
        before = [each for each in stamps if each.stage < _BROKER.start]
        there = sorted(each for each in stamps if each.stage in _BROKER)
        after = [each for each in stamps if each.stage >= _BROKER.stop]
        if before and after:
            there = within(there, before[-1].at_ns, after[0].at_ns)
        packed = next((each.at_ns for each in before if each.stage == Stage.PACKED), 0)
        return cls(due_ns, (*before, *there, *after), replies.get(packed))

    @property
    def total_ns(self) -> int:
        return self.stamps[-1].at_ns - self.due_ns

    def stages(self) -> dict[int, int]:
        """The nanoseconds spent in each stage."""
        spent: dict[int, int] = {}
        reached = self.due_ns
        for stage, at_ns in self.stamps:
            spent[stage] = max(at_ns - reached, 0)
            reached = max(at_ns, reached)
        return spent


@dataclass(frozen=True, slots=True)
class StageTimes:
    """One stage, in milliseconds."""

    name: str
    meaning: str
    p50: float
    p99: float
    at_p50: float
    """Its share in the records around the median."""
    at_p99: float
    """Its share in the records around the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The stages in order; those at a percentile add up to its total."""

    records: int
    stages: list[StageTimes]
    total_p50: float
    total_p99: float
    acknowledged_p50: float | None
    """Until the producer has its acknowledgement, which consumers do not wait for."""
    acknowledged_p99: float | None


def waterfall(traces: Sequence[RecordTrace]) -> Waterfall | None:
    """The times of all stages; None without traces."""
    if not traces:
        return None
    ranked = sorted(traces, key=lambda each: each.total_ns)
    every = [each.stages() for each in ranked]
    middle, tail = _band(every, *_MEDIAN), _band(every, *_TAIL)
    stages = [
        StageTimes(
            *_NAMES[stage],
            p50=_percentile([each.get(stage, 0) for each in every], 0.5),
            p99=_percentile([each.get(stage, 0) for each in every], 0.99),
            at_p50=_mean([each.get(stage, 0) for each in middle]),
            at_p99=_mean([each.get(stage, 0) for each in tail]),
        )
        for stage in _NAMES
        if any(stage in each for each in every)
    ]
    answered = [
        each.acknowledged_ns - each.due_ns for each in ranked if each.acknowledged_ns is not None
    ]
    return Waterfall(
        records=len(ranked),
        stages=stages,
        total_p50=_mean([sum(each.values()) for each in middle]),
        total_p99=_mean([sum(each.values()) for each in tail]),
        acknowledged_p50=_percentile(answered, 0.5) if answered else None,
        acknowledged_p99=_percentile(answered, 0.99) if answered else None,
    )


def _band(ranked: list[dict[int, int]], low: float, high: float) -> list[dict[int, int]]:
    """The traces between two ranks, and at least a few around them."""
    centre = (low + high) / 2 * len(ranked)
    half = max((high - low) / 2 * len(ranked), _FEWEST / 2)
    first = max(min(int(centre - half), len(ranked) - _FEWEST), 0)
    return ranked[first : max(int(centre + half), first + 1)]


def _percentile(values: list[int], share: float) -> float:
    return _ms(sorted(values)[min(int(share * len(values)), len(values) - 1)])


def _mean(values: list[int]) -> float:
    return _ms(sum(values) / len(values))


def _ms(nanoseconds: float) -> float:
    return round(nanoseconds / 1e6, 4)
