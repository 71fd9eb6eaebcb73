"""The positions of a stream: the next offset to read, per topic partition. Pure.

A checkpoint stores them as ``{"/default/orders": {"0": 17, "1": 5}}``. A position only advances
over existing records: if records are missing, the stream stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emr_jobs.source.objects import TopicPartition
from emr_jobs.source.reading import gap_error
from sulina.errors import Refused
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName

Positions = dict[TopicPartition, int]


def to_json(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The form that Spark stores in a checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for part, offset in sorted(positions.items()):
        found.setdefault(part.topic, {})[str(part.number)] = offset
    return found


def from_json(value: Mapping[str, Any]) -> Positions:
    """Parse the output of :func:`to_json`, or a user's: also one offset per topic or partition.

    Raises ``Refused``.
    """
    positions: Positions = {}
    try:
        for topic, offsets in value.items():
            part = TopicPartition.of(TopicName.parse(topic))
            if not isinstance(offsets, Mapping):
                offsets = {str(part.number): offsets}
            for number, offset in offsets.items():
                if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                    raise ValueError(f"{offset!r} is not an offset")
                positions[TopicPartition(part.topic, int(number))] = offset
    except (ValueError, AttributeError, TypeError) as error:
        raise Refused(f"invalid positions of a stream ({error}): {json.dumps(value)}") from None
    return positions


def from_text(text: str) -> Positions:
    """Parse the JSON form of the option ``startOffset``. Raises ``Refused``."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(
            f"invalid startOffset {text!r}: use earliest, latest, an offset, or JSON with the "
            'offset of each topic partition, such as {"/default/orders": {"0": 17, "1": 5}}'
        )
    return from_json(value)


def follow(
    part: TopicPartition, position: int, objects: Iterable[tuple[ObjectSummary, bool]]
) -> int:
    """The end of the records that can be read from ``position`` without a gap.

    ``objects`` begin with the one that contains the position; each comes with whether it is young,
    that is, written so recently that objects before it may still arrive, because ledgers become
    objects in any order. Raises ``Refused`` if the next records are missing although later ones are
    old, or if the topic was recreated.
    """
    end = position
    seen = None
    for seen, young in objects:
        if seen.first_offset > end:
            if end > position or young:
                return end  # read up to the gap first; if it remains, the next call stops there
            raise gap_error(str(part), end, seen.first_offset)
        end = max(end, seen.last_offset + 1)
    if seen is not None and seen.last_offset + 1 < position:
        raise Refused(
            f"{part} ends at offset {seen.last_offset}, before the stream's position {position}: "
            "the topic, or its objects, were deleted and recreated. Start with a new checkpoint"
        )
    return end


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of a topic partition that a batch reads; the end is exclusive."""

    part: TopicPartition
    start: int
    end: int


def limited(ranges: Sequence[OffsetRange], most: int) -> Positions:
    """The ends of the ranges, limited to ``most`` records in total; 0 means no limit.

    Every topic partition gets an equal share; shares that are not needed go to the others.
    """
    ends: Positions = {}
    room = most
    waiting = sorted(ranges, key=lambda each: each.end - each.start)
    for index, each in enumerate(waiting):
        end = each.end
        if most:
            # At least one record, so that every topic partition makes progress.
            share = max(room // (len(waiting) - index), 1)
            end = min(end, each.start + share)
        room -= end - each.start
        ends[each.part] = end
    return ends
