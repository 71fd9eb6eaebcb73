"""The positions of a stream: for each topic partition the offset that is read next. Pure.

In a checkpoint they stand as ``{"/default/orders": {"0": 17, "1": 5}}``. A position moves only over
records that are there: where some are missing, the stream stops.
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
    """As Spark keeps them."""
    found: dict[str, dict[str, int]] = {}
    for part, offset in sorted(positions.items()):
        found.setdefault(part.topic, {})[str(part.number)] = offset
    return found


def from_json(value: Mapping[str, Any]) -> Positions:
    """What :func:`to_json` wrote, or a user: also one number for a topic or a partition's name.

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
        raise Refused(
            f"these are no positions of a stream ({error}): {json.dumps(value)}"
        ) from None
    return positions


def from_text(text: str) -> Positions:
    """The same from the option ``startOffset``. Raises ``Refused``."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(
            f"startOffset {text!r} can't be read: it is earliest, latest, an offset, or JSON with "
            'the offset of each topic partition, as {"/default/orders": {"0": 17, "1": 5}}'
        )
    return from_json(value)


def follow(
    part: TopicPartition, position: int, objects: Iterable[tuple[ObjectSummary, bool]]
) -> int:
    """The end of the records that can be read from ``position`` on without a gap.

    ``objects`` are those from the one that holds the position on, each with whether it is young:
    written so short a time ago that the ones before it may still be on their way, since ledgers
    become objects in any order. Raises ``Refused`` if the very next records are missing though
    later ones are there for long, or the topic was made anew.
    """
    end = position
    seen = None
    for seen, young in objects:
        if seen.first_offset > end:
            if end > position or young:
                return end  # what is there is read first; then the gap stops the stream
            raise gap_error(str(part), end, seen.first_offset)
        end = max(end, seen.last_offset + 1)
    if seen is not None and seen.last_offset + 1 < position:
        raise Refused(
            f"{part} ends at offset {seen.last_offset}, before the stream's position {position}: "
            "the topic was deleted and made anew, or its objects were. Begin with a new checkpoint"
        )
    return end


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one topic partition that a batch reads: from, and to before."""

    part: TopicPartition
    start: int
    end: int


def limited(ranges: Sequence[Range], most: int) -> Positions:
    """The ends of the ranges, shortened so that there are at most ``most`` records; 0: no limit.

    Every topic partition gets its share, and what one does not need goes to the others.
    """
    ends: Positions = {}
    room = most
    waiting = sorted(ranges, key=lambda each: each.end - each.start)
    for index, each in enumerate(waiting):
        end = each.end
        if most:
            # At least one record, so that no topic partition waits for ever.
            share = max(room // (len(waiting) - index), 1)
            end = min(end, each.start + share)
        room -= end - each.start
        ends[each.part] = end
    return ends
