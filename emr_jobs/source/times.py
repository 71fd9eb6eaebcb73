"""Finds the offset of a time, by footers first and then by one column of one object."""

from __future__ import annotations

from collections.abc import Sequence

from emr_jobs.source.objects import candidates, footers, near_times
from emr_jobs.source.options import ReadBounds
from emr_jobs.source.planning import ObjectSlice
from emr_jobs.source.reading import read_slice
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.lake.schema import OFFSET


def first_offset_at(
    storage: LakeStorage, objects: Sequence[LakeObject], time_us: int, clock_skew: int | None = None
) -> int:
    """The offset of the first record published at ``time_us`` or later, or else the end.

    ``objects`` are those of one topic partition. Publish times come from the producers' clocks and
    may deviate from offset order, so all objects are searched, unless the deviation is at most
    ``clock_skew`` seconds. Blocks on the store.
    """
    end = 0
    chosen = candidates(objects)
    if clock_skew is not None:
        near = near_times(storage, chosen, ReadBounds(start_time=time_us), clock_skew * 1_000_000)
        chosen = near or chosen[-1:]
    for each, footer in zip(chosen, footers(storage, [e.found for e in chosen]), strict=True):
        summary = footer.summary
        end = max(end, summary.last_offset + 1)
        if summary.records and summary.last_time_us >= time_us:
            bounds = ReadBounds(start_time=time_us)
            for rows in read_slice(storage, ObjectSlice(each.found), [OFFSET], bounds):
                return int(rows.table.column(OFFSET)[0].as_py())
    return end
