"""Which records of a range compaction by key keeps. Pure, CPU-bound: run it in a thread.

A record is dropped if a later one has its key. A tombstone is dropped if it is the newest record of
its key and was published before a given time; the caller makes sure that nothing before it has the
key any more. Records without a key are kept.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sulina.lake.buffers import integers
from sulina.lake.newest import Flags, NewestOfKeys
from sulina.lake.schema import OFFSET, PUBLISH_TIME
from sulina.lake.thinning import tombstones


class KeyCompaction:
    """Decides about the records from ``first`` to ``last``, once all keys are known.

    ``newest`` has the keys of these records and of later ones. Tombstones published before
    ``tombstones_before_us`` are dropped; 0 keeps all.
    """

    def __init__(
        self, newest: NewestOfKeys, first: int, last: int, tombstones_before_us: int
    ) -> None:
        self._first = first
        self._replaced = newest.replaced(first, last)
        self._before_us = tombstones_before_us

    def kept(self, rows: pa.Table) -> Flags:
        """Which of these rows stay."""
        offsets = integers(rows.column(OFFSET).combine_chunks())
        stay: Flags = ~self._replaced[offsets - self._first]
        if self._before_us:
            times = integers(rows.column(PUBLISH_TIME).combine_chunks())
            old = times < self._before_us
            if (old & stay).any():
                stay &= ~(old & tombstones(rows))
        return np.ascontiguousarray(stay)
