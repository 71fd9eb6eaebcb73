"""Counts records from the objects' footers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emr_jobs.source.footers import Footer
from emr_jobs.source.objects import ObjectCandidate, choose, footers
from emr_jobs.source.options import ReadBounds, parse_options
from emr_jobs.source.planning import ObjectSlice
from emr_jobs.source.reading import read_slice
from emr_jobs.source.storage import LakeStorage
from sulina.errors import Refused


def count_records(options: Mapping[str, Any]) -> int:
    """The number of records that the options select. Blocks; raises the same errors as a read."""
    parsed = parse_options({name: str(value) for name, value in options.items()})
    if parsed.brokers is not None:
        raise Refused("counts from metadata are of objects alone: leave out the option live")
    storage, bounds = LakeStorage(parsed.location), parsed.bounds
    chosen = choose(storage, parsed)
    known = footers(storage, [each.found for each in chosen])
    return sum(
        _count(storage, each, footer, bounds) for each, footer in zip(chosen, known, strict=True)
    )


def _count(
    storage: LakeStorage, candidate: ObjectCandidate, footer: Footer, bounds: ReadBounds
) -> int:
    total = 0
    for group in footer.row_groups:
        first = max(group.first_offset, bounds.start_offset)
        end = min(group.last_offset + 1, bounds.end_offset)
        if group.last_time_us < bounds.start_time or group.first_time_us >= bounds.end_time:
            continue
        if group.first_time_us >= bounds.start_time and group.last_time_us < bounds.end_time:
            total += max(end - first, 0)
            continue
        slice_ = ObjectSlice(candidate.found, first, end)
        total += sum(rows.table.num_rows for rows in read_slice(storage, slice_, [], bounds))
    return total
