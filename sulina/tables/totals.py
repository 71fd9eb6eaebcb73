"""What a table says of its records as a whole: the newest one's time, and how many are rejected.

Both are in the summary of each snapshot that we commit, so that nobody has to read manifests to
show them. After a snapshot by somebody else they come from the bounds and counts of the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import TimestamptzType

from sulina.lake.schema import VALUE_ERROR_ID
from sulina.tables.columns import TIME_ID

_NEWEST: Final = "sulina.newest-us"
_REJECTED: Final = "sulina.rejected"


@dataclass(frozen=True, slots=True)
class Totals:
    """Of all records of a table."""

    newest_us: int = 0
    """When the newest record was published; 0 if there is none."""
    rejected: int = 0
    """Payloads that do not fit their schema."""

    def changed(self, added: Iterable[DataFile], removed: Iterable[DataFile]) -> Totals:
        """After a commit. The newest time stays, because what is removed is the oldest."""
        newest, rejected = self.newest_us, self.rejected
        for file in added:
            newest = max(newest, _newest(file))
            rejected += rejected_in(file)
        return Totals(newest, rejected - sum(rejected_in(file) for file in removed))

    def summary(self) -> dict[str, str]:
        """For the summary of a snapshot."""
        return {_NEWEST: str(self.newest_us), _REJECTED: str(self.rejected)}


def totals_of(table: Table) -> Totals:
    """Of a table as it was last read. Reads all manifests after a snapshot by somebody else."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return Totals()
    if snapshot.summary is not None:
        newest, rejected = snapshot.summary.get(_NEWEST), snapshot.summary.get(_REJECTED)
        if newest is not None and rejected is not None:
            return Totals(int(newest), int(rejected))
    return Totals().changed((task.file for task in table.scan().plan_files()), ())


def rejected_in(file: DataFile) -> int:
    """How many payloads of a file do not fit their schema."""
    nulls = (file.null_value_counts or {}).get(VALUE_ERROR_ID, file.record_count)
    return int(file.record_count - nulls)


def _newest(file: DataFile) -> int:
    bound = (file.upper_bounds or {}).get(TIME_ID)
    return 0 if bound is None else int(from_bytes(TimestamptzType(), bound))
