"""Reads a table whole and says what is wrong with it. Bounded by one file at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table

from sulina.lake.digest import Digest
from sulina.lake.schema import PAYLOAD, RECORD_SCHEMA, VALUE, VALUE_ERROR
from tests.end_to_end.tallies import DigestTally, Log
from tests.tables.proof.orders import TOPIC, Ints, is_broken, number_in, values

_MOST_FAULTS: Final = 20


@dataclass(slots=True)
class TableCheck:
    """What a table has; ``add`` its rows, in the order of their offsets within a partition."""

    records: int
    """How many were published."""
    faults: list[str] = field(default_factory=list)
    rejected: int = 0
    _seen: Any = None
    _digests: dict[Log, Digest] = field(default_factory=lambda: defaultdict(Digest))
    _next: dict[Log, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self._seen = np.zeros(self.records, np.int32)

    def add(self, partition: int, rows: pa.RecordBatch | pa.Table) -> None:
        """Rows of one partition, with all columns of the table."""
        log = (TOPIC, partition)
        offsets = rows.column("offset").to_numpy()
        expected = np.arange(self._next[log], self._next[log] + len(offsets))
        if not np.array_equal(offsets, expected):
            self._fault(f"partition {partition}: offsets do not continue at {self._next[log]}")
        self._next[log] += len(offsets)
        records = rows.select(RECORD_SCHEMA.names)
        columns = [_whole(records, each.name).cast(each.type) for each in RECORD_SCHEMA]
        self._digests[log].add(pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA))
        self._check_values(partition, rows)

    def _check_values(self, partition: int, rows: pa.RecordBatch | pa.Table) -> None:
        value, error, payload = (_whole(rows, name) for name in (VALUE, VALUE_ERROR, PAYLOAD))
        broken = pc.is_valid(error)
        self.rejected += pc.sum(broken).as_py() or 0
        if not pc.equal(pc.is_null(value), broken).to_numpy(zero_copy_only=False).all():
            self._fault(f"partition {partition}: a row has both value and value_error, or none")
        refused = [number_in(each.as_py()) for each in payload.filter(broken)]
        typed = value.filter(pc.invert(broken))
        numbers = pc.struct_field(typed, "id").to_numpy(zero_copy_only=False).astype(np.int64)
        for name, column in values(numbers, self.records).items():
            if not _same(pc.struct_field(typed, name), column):
                self._fault(f"partition {partition}: wrong values in the column {name}")
        self._count(np.array(refused, np.int64), broken=True)
        self._count(numbers, broken=False)

    def _count(self, numbers: Ints, *, broken: bool) -> None:
        known = (numbers >= 0) & (numbers < self.records)
        if not known.all():
            self._fault(f"the order {numbers[~known][0]} was never published")
        found = numbers[known]
        if (is_broken(found) != broken).any():
            self._fault("an order is typed that should not be, or the reverse")
        np.add.at(self._seen, found, 1)

    def finish(self) -> dict[Log, DigestTally]:
        """Count orders that are missing or there twice, and return each partition's digest."""
        missing, twice = (np.flatnonzero(self._seen == 0), np.flatnonzero(self._seen > 1))
        for what, wrong in (("missing", missing), ("there more than once", twice)):
            if len(wrong):
                self._fault(f"{len(wrong)} orders are {what}, the first is {wrong[0]}")
        return {
            log: DigestTally(self._next[log], digest.text())
            for log, digest in self._digests.items()
        }

    def _fault(self, what: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(what)


def check_table(table: Table, check: TableCheck) -> None:
    """Read every file of the table's newest snapshot into ``check``."""
    scan = table.scan()
    tasks = sorted(scan.plan_files(), key=lambda task: task.file.file_path.rpartition("/")[2])
    for task in tasks:
        reader = ArrowScan(table.metadata, table.io, table.schema(), scan.row_filter)
        check.add(task.file.partition[0], _table_of(reader.to_record_batches([task])))


def _table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(list(batches))


def _whole(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _same(found: pa.Array, expected: pa.Array) -> bool:
    return bool(found.cast(expected.type).equals(expected))
