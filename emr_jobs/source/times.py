"""From a time to an offset, by footers first and then by one column of one row group."""

from __future__ import annotations

from collections.abc import Sequence

from emr_jobs.source.objects import candidates, footers, near_times
from emr_jobs.source.options import Bounds
from emr_jobs.source.planning import Slice
from emr_jobs.source.reading import read_slice
from emr_jobs.source.storage import Found, Storage
from sulina.lake.schema import OFFSET


def first_offset_at(
    storage: Storage, objects: Sequence[Found], time_us: int, clock_skew: int | None = None
) -> int:
    """The offset of the first record published at ``time_us`` or later; the end if there is none.

    ``objects`` are those of one topic partition. Publish times are the producers' clocks and need
    not rise with the offsets, so every object may hold the first, unless they are off by
    ``clock_skew`` seconds at most. Blocks on the store.
    """
    end = 0
    chosen = candidates(objects)
    if clock_skew is not None:
        near = near_times(storage, chosen, Bounds(start_time=time_us), clock_skew * 1_000_000)
        chosen = near or chosen[-1:]
    for each, footer in zip(chosen, footers(storage, [e.found for e in chosen]), strict=True):
        summary = footer.summary
        end = max(end, summary.last_offset + 1)
        if summary.records and summary.last_time_us >= time_us:
            bounds = Bounds(start_time=time_us)
            for rows in read_slice(storage, Slice(each.found), [OFFSET], bounds):
                return int(rows.table.column(OFFSET)[0].as_py())
    return end
