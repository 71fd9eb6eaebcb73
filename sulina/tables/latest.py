"""A table of the newest row of each key, made of a topic's records: for topics with few keys.

The table has files of its own. Its newest snapshot says which offsets are in it, and a commit
requires that this is still the newest snapshot; so each object is merged once and in order, however
often and in however many processes this runs. A tombstone deletes the row of its key; records
without a key are left out. All records of a key are in one partition, where offsets order them.

The whole table is in memory while it is changed. Larger ones are kept by the job
``emr_jobs.jobs.upsert``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from sulina.errors import Refused, SulinaError, Unavailable, UnknownOutcome
from sulina.lake.layout import ObjectName
from sulina.lake.schema import (
    ATTRIBUTES,
    KEY,
    OBJECT_SCHEMA,
    OFFSET,
    PAYLOAD,
    PUBLISH_TIME,
    VALUE,
)
from sulina.names import TopicName
from sulina.tables.columns import PARTITION
from sulina.tables.committing import Conflict, TopicObjects
from sulina.tables.iceberg import catalog_errors, table_name
from sulina.tables.objects import Lake
from sulina.tables.planning import Gap
from sulina.wire.tombstones import TOMBSTONE

LATEST_OF: Final = "sulina.latest-of"
"""The property that names a table's topic."""
_MERGED: Final = "sulina.merged"
"""What the summary of a snapshot says: the next offset of each partition."""
MAX_BYTES: Final = 1 << 30
_OBJECTS_PER_COMMIT: Final = 100
_ATTEMPTS: Final = 20
_READ: Final = (OFFSET, PUBLISH_TIME, KEY, PAYLOAD, ATTRIBUTES)
_DELETED: Final = "deleted"
_PLAIN: Final = pa.schema(
    [
        OBJECT_SCHEMA.field(KEY),
        pa.field(PARTITION, pa.int32()),
        *(OBJECT_SCHEMA.field(name).with_nullable(True) for name in (OFFSET, PUBLISH_TIME)),
        OBJECT_SCHEMA.field(PAYLOAD),
    ]
)
"""The columns of the table; ``value`` comes with the first object that has it."""


def latest_name(topic: TopicName) -> str:
    """``default__orders__latest`` for ``/default/orders``."""
    return f"{table_name(topic)}__latest"


def make_latest(catalog: Catalog, database: str, topic: TopicName, location: str) -> Table:
    """Load the table of the newest rows of a topic, or create it below ``location``."""
    name = (database, latest_name(topic))
    properties = {LATEST_OF: str(topic), "commit.retry.num-retries": "0"}
    with catalog_errors("changed"):
        try:
            found = catalog.load_table(name)
        except NoSuchTableError:
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(database)
            place = f"{location.rstrip('/')}/{name[1]}"
            try:
                found = catalog.create_table(name, _PLAIN, place, properties=properties)
            except TableAlreadyExistsError:  # by another process, just now
                found = catalog.load_table(name)
    if found.properties.get(LATEST_OF) != str(topic):
        raise Refused(f"the table {'.'.join(name)} belongs to somebody else: use another database")
    return found


@dataclass(frozen=True, slots=True)
class Unmerged:
    """What comes next of a topic."""

    objects: tuple[tuple[ObjectName, int], ...]
    """Each with the offset from which on its records are new."""
    merged: Mapping[int, int]
    """What the table says afterwards."""
    gaps: tuple[Gap, ...]


def unmerged(merged: Mapping[int, int], objects: TopicObjects, most: int) -> Unmerged:
    """The next objects, at most ``most``. An object may have replaced some that were merged.

    Raises ``Refused`` if records are gone that were not merged.
    """
    found: list[tuple[ObjectName, int]] = []
    gaps: list[Gap] = []
    after = dict(merged)
    for partition, listed in objects.list().items():
        position = merged.get(partition, listed[0].first_offset)
        if listed[0].first_offset > position:
            raise Refused(
                f"records {position} to {listed[0].first_offset - 1} of partition {partition} are "
                "gone, and were not merged: drop the table to make it anew from what is left"
            )
        for name in _from(listed, position):
            if name.first_offset > position:
                gaps.append(Gap(partition, position, name.first_offset))
                break
            end = objects.summary(name).last_offset + 1
            if end <= position:
                continue
            if len(found) == most:
                break
            found.append((name, position))
            position = end
        after[partition] = position
    return Unmerged(tuple(found), after, tuple(gaps))


def _from(listed: Sequence[ObjectName], position: int) -> Sequence[ObjectName]:
    """The objects from the last one on that begins at or before an offset."""
    before = [at for at, name in enumerate(listed) if name.first_offset <= position]
    return listed[before[-1] :]


class LatestTable:
    """The table of a topic's newest rows. Calls block; use it from one thread at a time."""

    def __init__(self, table: Table, lake: Lake, max_bytes: int = MAX_BYTES) -> None:
        self._table = table
        self._lake = lake
        self._max_bytes = max_bytes

    def merge(self, objects: TopicObjects) -> tuple[int, tuple[Gap, ...]]:
        """Merge all that is new; returns how many records, and where objects are missing.

        Raises ``Unavailable`` if others change the table again and again, and as
        :func:`unmerged` and :meth:`commit` do.
        """
        records = conflicts = 0
        while True:
            with catalog_errors("read"):
                self._table.refresh()
            new = unmerged(_merged(self._table), objects, _OBJECTS_PER_COMMIT)
            if not new.objects:
                return records, new.gaps
            try:
                self.commit(new)
            except (Conflict, UnknownOutcome) as error:
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise Unavailable(
                        f"the table changed {_ATTEMPTS} times while records were merged ({error}): "
                        "let one process at a time change it"
                    ) from None
                continue
            records += sum(
                objects.summary(name).last_offset + 1 - start for name, start in new.objects
            )

    def commit(self, new: Unmerged) -> None:
        """Merge objects, if the table is as it was last read; else raise ``Conflict``.

        Raises ``Refused`` if the table grows beyond memory, ``UnknownOutcome`` if the answer was
        lost, and ``Unavailable``.
        """
        with catalog_errors("read"):
            rows = newest([self._table.scan().to_arrow()])
        for name, start in new.objects:
            for more in self._changes(name, start):
                rows = newest([rows, more])
                if rows.nbytes > self._max_bytes:
                    raise Refused(
                        f"the newest rows of /{name.namespace}/{name.topic} take more than "
                        f"{self._max_bytes >> 20} MiB: keep them with the job emr_jobs.jobs.upsert"
                    )
        self._overwrite(rows, {_MERGED: json.dumps(new.merged)})

    def _changes(self, name: ObjectName, start: int) -> Iterator[pa.Table]:
        with self._lake.open(name) as (file, footer):
            typed = [VALUE] if footer.typed is not None else []
            parquet = pq.ParquetFile(file, metadata=footer.parquet)
            for group in footer.row_groups:
                if group.last_offset >= start:
                    rows = parquet.read_row_group(group.number, [*_READ, *typed])
                    yield _rows(rows.filter(pc.field(OFFSET) >= start), name.partition)

    def _overwrite(self, rows: pa.Table, summary: dict[str, str]) -> None:
        transaction = self._table.transaction()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that an empty table has nothing to delete
                with transaction.update_schema() as schema:
                    schema.union_by_name(rows.schema)
                transaction.overwrite(rows, snapshot_properties=summary)
                transaction.commit_transaction()
        except CommitFailedException as error:
            raise Conflict(str(error)) from None
        except SulinaError:
            raise
        except Exception as error:  # of the catalog's client or of its store: any library
            raise UnknownOutcome(f"the catalog did not confirm the commit: {error}") from error


def _merged(table: Table) -> dict[int, int]:
    """What was merged. Snapshots by others, such as those that rewrite files, do not change it."""
    newest = table.current_snapshot()
    if newest is None:
        return {}
    for snapshot in ancestors_of(newest, table.metadata):
        text = snapshot.summary.get(_MERGED) if snapshot.summary is not None else None
        if text is not None:
            return {int(part): offset for part, offset in json.loads(text).items()}
    raise Refused(
        f"the history of {'.'.join(table.name())} does not say what was merged into it: drop the "
        "table to make it anew"
    )


def newest(tables: Iterable[pa.Table]) -> pa.Table:
    """The last row of each key, without those that are deleted. Later tables are newer."""
    rows = pa.concat_tables(tables, promote_options="permissive")
    places = pa.table({KEY: rows.column(KEY), "place": np.arange(rows.num_rows)})
    last = places.group_by(KEY).aggregate([("place", "max")]).column("place_max")
    kept = rows.take(last.sort())
    if _DELETED in kept.schema.names:
        kept = kept.filter(pc.invert(pc.fill_null(kept.column(_DELETED), False)))
        kept = kept.drop_columns([_DELETED])
    return kept.combine_chunks()


def _rows(records: pa.Table, partition: int) -> pa.Table:
    """Records of an object as rows of the table, with whether they delete theirs."""
    records = records.filter(pc.is_valid(records.column(KEY)))
    marks = [
        row is not None and TOMBSTONE in dict(row) for row in records.column(ATTRIBUTES).to_pylist()
    ]
    empty = pc.equal(pc.binary_length(records.column(PAYLOAD)), 0)
    deleted = pc.and_(pc.fill_null(empty, False), pa.array(marks, pa.bool_()))
    numbers = pa.repeat(pa.scalar(partition, pa.int32()), records.num_rows)
    columns: dict[str, Any] = {KEY: records.column(KEY), PARTITION: numbers}
    columns |= {name: records.column(name) for name in (OFFSET, PUBLISH_TIME, PAYLOAD)}
    if VALUE in records.schema.names:
        columns[VALUE] = records.column(VALUE)
    return pa.table({**columns, _DELETED: deleted})
