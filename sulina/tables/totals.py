"""What a table says of its records as a whole: the newest one's time, how many are rejected, how
many lack typed columns, and how it was committed.

All are in the summary of each snapshot that we commit, so that nobody has to read manifests to
show them. After a snapshot by somebody else they come from the bounds and counts of the files, and
commits are counted anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import TimestamptzType

from sulina.lake.schema import VALUE, VALUE_ERROR_ID
from sulina.tables.columns import TIME_ID

_NEWEST: Final = "sulina.newest-us"
_REJECTED: Final = "sulina.rejected"
_LACKING: Final = "sulina.lacking-columns"
_COMMITS: Final = "sulina.commits"
_CONFLICTS: Final = "sulina.conflicts"


@dataclass(frozen=True, slots=True)
class Totals:
    """Of all records of a table."""

    newest_us: int = 0
    """When the newest record was published; 0 if there is none."""
    rejected: int = 0
    """Payloads that do not fit their schema."""
    lacking: int = 0
    """Records in files without some typed column of the table: it is null for them, also where the
    schema has a default, because Iceberg's format 2 knows none."""
    commits: int = 0
    conflicts: int = 0
    """Attempts that failed because the table had changed meanwhile, or whose answer was lost."""

    def changed(
        self,
        added: Iterable[DataFile],
        removed: Iterable[DataFile],
        typed: Set[int],
        conflicts: int = 0,
    ) -> Totals:
        """After a commit to a table with these typed columns, which the totals know already, and
        so many failed attempts.

        The newest time stays, because what is removed is the oldest.
        """
        newest, rejected, lacking = self.newest_us, self.rejected, self.lacking
        for file in added:
            newest = max(newest, _newest(file))
            rejected += rejected_in(file)
            lacking += _lacking_in(file, typed)
        for file in removed:
            rejected -= rejected_in(file)
            lacking -= _lacking_in(file, typed)
        return Totals(newest, rejected, lacking, self.commits + 1, self.conflicts + conflicts)

    def summary(self) -> dict[str, str]:
        """For the summary of a snapshot."""
        numbers = {
            _NEWEST: self.newest_us,
            _REJECTED: self.rejected,
            _LACKING: self.lacking,
            _COMMITS: self.commits,
            _CONFLICTS: self.conflicts,
        }
        return {name: str(number) for name, number in numbers.items()}


def totals_of(table: Table, schema: Schema | None = None) -> Totals:
    """Of a table as it was last read, or as it is with the columns of a newer ``schema``.

    Reads all manifests after a snapshot by somebody else, and after a rollback to fewer columns.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return Totals()
    typed = typed_ids(schema or table.schema())
    if snapshot.summary is not None and snapshot.schema_id == table.schema().schema_id:
        names = (_NEWEST, _REJECTED, _LACKING)
        newest, rejected, lacking = (snapshot.summary.get(name) for name in names)
        if newest is not None and rejected is not None and lacking is not None:
            if typed != typed_ids(table.schema()):  # a column comes with the first file that has it
                lacking = snapshot.summary.get("total-records")
            commits, conflicts = (snapshot.summary.get(name) for name in (_COMMITS, _CONFLICTS))
            counts = (rejected, lacking, commits, conflicts)
            return Totals(int(newest), *(int(count or 0) for count in counts))
    files = (task.file for task in table.scan().plan_files())
    return replace(Totals().changed(files, (), typed), commits=0)


def typed_ids(schema: Schema) -> frozenset[int]:
    """The ids of the typed columns that files have values of."""
    fields = ((name, schema.find_field(name)) for name in schema.column_names)
    return frozenset(
        field.field_id
        for name, field in fields
        if name.partition(".")[0] == VALUE and field.field_type.is_primitive
    )


def rejected_in(file: DataFile) -> int:
    """How many payloads of a file do not fit their schema."""
    nulls = (file.null_value_counts or {}).get(VALUE_ERROR_ID, file.record_count)
    return int(file.record_count - nulls)


def _lacking_in(file: DataFile, typed: Set[int]) -> int:
    return int(file.record_count) if typed - (file.value_counts or {}).keys() else 0


def _newest(file: DataFile) -> int:
    bound = (file.upper_bounds or {}).get(TIME_ID)
    return 0 if bound is None else int(from_bytes(TimestamptzType(), bound))
