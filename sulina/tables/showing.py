"""What can be shown of a table: its state, its columns, its snapshots, and its newest rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Summary
from pyiceberg.types import NestedField

from sulina.lake.schema import KEY, OFFSET, PAYLOAD, PUBLISH_TIME, VALUE, VALUE_ERROR
from sulina.tables.columns import PARTITION
from sulina.tables.iceberg import TOPIC, extents_of
from sulina.tables.planning import Extent
from sulina.tables.totals import totals_of

_SHOWN: Final = (PARTITION, OFFSET, PUBLISH_TIME, KEY, PAYLOAD, VALUE, VALUE_ERROR)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as the catalog has it."""

    topic: str
    table: str
    records: int
    objects: int
    bytes: int
    rejected: int
    """Payloads that do not fit their schema."""
    lacking_columns: int
    """Records that lack typed columns until their objects are rewritten."""
    newest_us: int
    """When the newest record was published; 0 if there is none."""
    committed_us: int
    """When the newest snapshot was committed; 0 if there is none."""
    commits: int
    conflicts: int
    """Attempts to commit that failed because the table had changed, or whose answer was lost."""
    snapshots: int
    metadata: str
    """Where the current metadata is, for engines that open a table by it."""
    partitions: dict[int, Extent]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct: ``value.amount``."""

    name: str
    type: str
    field_id: int


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A state that the table had, and that can be queried."""

    id: int
    committed_us: int
    operation: str
    records: int
    objects: int
    added_records: int
    deleted_records: int


@dataclass(frozen=True, slots=True)
class TableDetails:
    """A table with what it is made of."""

    state: TableState
    columns: tuple[Column, ...]
    history: tuple[SnapshotState, ...]
    """The newest snapshots, newest first."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row."""

    partition: int
    offset: int
    publish_time: datetime
    key: bytes | None
    payload: bytes | None
    value: str | None
    """The typed columns as JSON; None without any, or if the payload does not fit."""
    value_error: str | None


def state_of(table: Table) -> TableState:
    """Of a table as it was last read."""
    snapshot = table.current_snapshot()
    total = _numbers(snapshot.summary if snapshot is not None else None)
    totals, records = totals_of(table), total("total-records")
    return TableState(
        topic=table.properties[TOPIC],
        table=".".join(table.name()),
        records=records,
        objects=total("total-data-files"),
        bytes=total("total-files-size"),
        rejected=totals.rejected,
        lacking_columns=totals.lacking,
        newest_us=totals.newest_us if records else 0,
        committed_us=snapshot.timestamp_ms * 1000 if snapshot is not None else 0,
        commits=totals.commits,
        conflicts=totals.conflicts,
        snapshots=len(table.snapshots()),
        metadata=table.metadata_location,
        partitions=extents_of(table),
    )


def details_of(table: Table, snapshots: int) -> TableDetails:
    """Of a table as it was last read, with so many of its newest snapshots."""
    schema = table.schema()
    columns = tuple(
        Column(name, _kind(field), field.field_id)
        for name, field in ((name, schema.find_field(name)) for name in schema.column_names)
    )
    newest = sorted(table.snapshots(), key=lambda each: -each.timestamp_ms)[:snapshots]
    history = []
    for each in newest:
        number = _numbers(each.summary)
        history.append(
            SnapshotState(
                each.snapshot_id,
                each.timestamp_ms * 1000,
                each.summary.operation.value if each.summary is not None else "",
                number("total-records"),
                number("total-data-files"),
                number("added-records"),
                number("deleted-records"),
            )
        )
    return TableDetails(state_of(table), columns, tuple(history))


def sample_of(table: Table, most: int) -> tuple[SampleRow, ...]:
    """The newest rows of each partition, together up to ``most``. Reads their files.

    Offsets may be missing, so there may be fewer.
    """
    extents = {part: each for part, each in extents_of(table).items() if each.first < each.next}
    names = [each for each in _SHOWN if each in {field.name for field in table.schema().fields}]
    found: list[SampleRow] = []
    for number, (partition, extent) in enumerate(sorted(extents.items())):
        share = (most - len(found)) // (len(extents) - number)
        if not share:
            continue
        first = max(extent.first, extent.next - share)
        where = f"{PARTITION} = {partition} and {OFFSET} >= {first}"
        rows = table.scan(row_filter=where, selected_fields=tuple(names)).to_arrow().to_pylist()
        found += (_row(row) for row in sorted(rows, key=lambda each: int(each[OFFSET])))
    return tuple(found)


def _row(row: dict[str, Any]) -> SampleRow:
    value = row.get(VALUE)
    text = None if value is None else json.dumps(value, default=_plain, ensure_ascii=False)
    known = (row[PARTITION], row[OFFSET], row[PUBLISH_TIME], row[KEY], row[PAYLOAD])
    return SampleRow(*known, text, row.get(VALUE_ERROR))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _kind(field: NestedField) -> str:
    """The type of a column; of one with fields, the fields follow as columns of their own."""
    kind = field.field_type
    return str(kind) if kind.is_primitive else type(kind).__name__.removesuffix("Type").lower()


def _numbers(summary: Summary | None) -> Callable[[str], int]:
    return lambda name: int((summary.get(name) if summary is not None else None) or 0)
