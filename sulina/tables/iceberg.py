"""A topic's table in an Iceberg catalog, by pyiceberg.

A commit is conditional on the snapshot that the table had when it was read; pyiceberg's own retries
are off, because they append again whatever somebody else has appended meanwhile. The snapshot's
summary says which offsets the table has; after a snapshot by others, or a rollback, the files do.

``gc.enabled`` is false, so that engines do not delete the objects, which replays read too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    SetCurrentSchemaUpdate,
    TableUpdate,
)
from pyiceberg.types import LongType

from sulina.errors import NotFound, Refused, SulinaError, Unavailable, UnknownOutcome
from sulina.lake.decoder import Footer
from sulina.lake.layout import ROOT, ObjectName, parse_key
from sulina.lake.schema import OFFSET
from sulina.names import TopicName
from sulina.tables.catalogs import reason
from sulina.tables.columns import (
    DAY_SPEC,
    NAMES,
    OFFSET_ID,
    ORDER,
    PARTITION,
    SCHEMA,
    SPEC,
    grown,
    typed_fields,
)
from sulina.tables.committing import Conflict
from sulina.tables.data_file import data_file
from sulina.tables.partitioning import changing, specs_for
from sulina.tables.planning import CommitPlan, Extent, Extents, checksum
from sulina.tables.totals import totals_of, typed_ids

_EXTENTS: Final = "sulina.extents"
TOPIC: Final = "sulina.topic"
"""The property that names a table's topic."""
_PROPERTIES: Final = {
    "gc.enabled": "false",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Rewritten files keep the exact offsets, from which extents are read.
    "write.metadata.metrics.column.offset": "full",
}


def table_name(topic: TopicName) -> str:
    """The name of a topic's table: ``default__orders`` for ``/default/orders``.

    Lower case with underscores, because Glue and Athena know no other names.
    """
    return f"{topic.namespace}__{topic.local}".replace("-", "_").lower()


class _Transaction(Transaction):
    """Finds out what the metadata will be once per change.

    pyiceberg's own does so whenever it looks, about 15 times a commit, and copies all snapshots.
    """

    _known: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if not self._updates:
            return self._table.metadata
        if self._known is None or self._known[0] is not self._updates:
            self._known = (self._updates, super().table_metadata)
        return self._known[1]


class IcebergTable:
    """A topic's table. Calls block on the catalog; use it from one thread at a time."""

    def __init__(
        self,
        table: Table,
        url_of: Callable[[ObjectName], str],
        footer_of: Callable[[ObjectName], Footer],
    ) -> None:
        self._table = table
        self._url_of = url_of
        self._footer_of = footer_of
        self._failed = 0
        """Attempts to commit since the last one that succeeded."""

    @property
    def table(self) -> Table:
        """pyiceberg's table, as it was last read."""
        return self._table

    def extents(self) -> Extents:
        with catalog_errors("read"):
            self._table.refresh()
            return extents_of(self._table)

    def commit(self, planned: CommitPlan) -> None:
        footers = {name: self._footer_of(name) for name in planned.added}
        transaction = _Transaction(self._table)
        try:
            schema = _grow(transaction, self._table.schema(), footers.values())
            specs = specs_for(transaction, self._table)
            added = [
                data_file(self._url_of(name), name.partition, footer, schema, specs)
                for name, footer in footers.items()
            ]
            removed = list(self._removed(planned))
            before, typed = totals_of(self._table, schema), typed_ids(schema)
            totals = before.changed(added, removed, typed, self._failed)
            summary = {_EXTENTS: _to_text(planned.extents), **totals.summary()}
            with changing(transaction, summary, removes=bool(removed)) as change:
                for file in removed:
                    change.delete_data_file(file)
                for file in added:
                    change.append_data_file(file)
            transaction.commit_transaction()
            self._failed = 0
        except CommitFailedException as error:
            self._failed += 1
            raise Conflict(str(error)) from None
        except SulinaError:
            raise
        except Exception as error:  # of the catalog's client or of its store: any library
            self._failed += 1
            raise UnknownOutcome(f"the catalog did not confirm the commit: {error}") from error

    def files(self, partition: int) -> dict[ObjectName, int]:
        with catalog_errors("read"):
            tasks = self._table.scan(row_filter=f"{PARTITION} = {partition}").plan_files()
            return {_object_of(task.file): _end_of(task.file) for task in tasks}

    def _removed(self, planned: CommitPlan) -> Iterator[DataFile]:
        for partition in {name.partition for name in planned.exchanged}:
            for task in self._table.scan(row_filter=f"{PARTITION} = {partition}").plan_files():
                if _object_of(task.file) in planned.exchanged:
                    yield task.file
        for partition, before in planned.removed_before.items():
            where = f"{PARTITION} = {partition} and {OFFSET} < {before}"
            for task in self._table.scan(row_filter=where).plan_files():
                if _offsets(task.file).next <= before:
                    yield task.file


@contextmanager
def catalog_errors(what: str) -> Iterator[None]:
    """Errors of the catalog's client, of whatever library, become ``Unavailable``."""
    try:
        yield
    except SulinaError:
        raise
    except Exception as error:
        raise Unavailable(f"the catalog could not be {what}: {reason(error)}") from error


def find_table(catalog: Catalog, database: str, topic: TopicName) -> Table:
    """Load the table of a topic. Raises ``NotFound``, ``Unavailable`` and ``Refused``."""
    with catalog_errors("read"):
        try:
            found = catalog.load_table((database, table_name(topic)))
        except NoSuchTableError:
            raise NotFound(
                f"{topic} has no table in {database}: `sulina table backfill {topic}` creates it"
            ) from None
    return _checked(found, topic)


def make_table(catalog: Catalog, database: str, topic: TopicName, location: str) -> Table:
    """Load the table of a topic, or create it, with its metadata below ``location``."""
    try:
        return find_table(catalog, database, topic)
    except NotFound:
        pass
    name = table_name(topic)
    with catalog_errors("changed"):
        try:
            catalog.load_namespace_properties(database)
        except NoSuchNamespaceError:  # who may not create one does not try
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(database)
        try:
            made = catalog.register_table(
                (database, name), _first_metadata(catalog, topic, location)
            )
        except TableAlreadyExistsError:  # by another committer, just now
            return find_table(catalog, database, topic)
    return _checked(made, topic)


def _first_metadata(catalog: Catalog, topic: TopicName, location: str) -> str:
    """Write the metadata of an empty table, and return where it is.

    Catalogs that create a table assign field ids of their own; those of the objects must stay.
    """
    number = uuid4()
    folder = f"{location.rstrip('/')}/{table_name(topic)}"
    metadata = TableMetadataV2.model_validate(
        {
            "location": folder,
            "table-uuid": number,
            "schemas": [SCHEMA],
            "current-schema-id": SCHEMA.schema_id,
            "last-column-id": SCHEMA.highest_field_id,
            "partition-specs": [SPEC, DAY_SPEC],
            "default-spec-id": DAY_SPEC.spec_id,
            "last-partition-id": DAY_SPEC.last_assigned_field_id,
            "sort-orders": [ORDER],
            "default-sort-order-id": ORDER.order_id,
            "properties": {
                **_PROPERTIES,
                TOPIC: str(topic),
                "schema.name-mapping.default": NAMES.model_dump_json(),
            },
        }
    )
    path = f"{folder}/metadata/00000-{number}.metadata.json"
    store = load_file_io(catalog.properties, folder)
    ToOutputFile.table_metadata(metadata, store.new_output(path))
    return path


def _grow(transaction: Transaction, schema: Schema, footers: Iterable[Footer]) -> Schema:
    """Add the typed columns of new objects to the table, in the same commit."""
    wanted = schema
    for footer in footers:
        typed = typed_fields(footer.parquet.schema.to_arrow_schema())
        wanted = grown(wanted, typed) or wanted
    if wanted is not schema:
        same = AssertCurrentSchemaId.model_validate({"current-schema-id": schema.schema_id})
        newest = SetCurrentSchemaUpdate()
        transaction._apply((AddSchemaUpdate(schema=wanted), newest), (same,))
    return wanted


def _checked(table: Table, topic: TopicName) -> Table:
    owner = table.properties.get(TOPIC)
    if owner != str(topic):
        raise Refused(
            f"the table {'.'.join(table.name())} belongs to {owner or 'somebody else'}, not to "
            f"{topic}: use another database for one of them"
        )
    return table


def extents_of(table: Table) -> dict[int, Extent]:
    """The offsets that the table has of each partition, as it was last read."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return {}
    text = snapshot.summary.get(_EXTENTS) if snapshot.summary is not None else None
    return _from_text(text) if text is not None else _extents_of_files(table)


def _extents_of_files(table: Table) -> dict[int, Extent]:
    found: dict[int, Extent] = {}
    files: defaultdict[int, list[ObjectName]] = defaultdict(list)
    for task in table.scan().plan_files():
        own, partition = _offsets(task.file), task.file.partition[0]
        known = found.get(partition, own)
        found[partition] = Extent(min(known.first, own.first), max(known.next, own.next))
        with suppress(Refused):
            files[partition].append(_object_of(task.file))
    return {
        part: replace(each, replaced=checksum(sorted(files[part]), each.next))
        for part, each in found.items()
    }


def _offsets(file: DataFile) -> Extent:
    first, last = (
        int(from_bytes(LongType(), bounds[OFFSET_ID]))
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return Extent(first, last + 1)


def _object_of(file: DataFile) -> ObjectName:
    _, folder, rest = file.file_path.rpartition(f"/{ROOT}")
    try:
        return parse_key(f"{folder[1:]}{rest}")
    except Refused:
        raise Refused(
            f"the table has the file {file.file_path}, which is not an object of the lake, so "
            "replaced objects can't be exchanged: `sulina table rebuild` makes the table anew"
        ) from None


def _end_of(file: DataFile) -> int:
    name = _object_of(file)
    return name.last_offset + 1 if name.generation else _offsets(file).next


def _to_text(extents: Extents) -> str:
    return json.dumps(
        {
            str(part): [each.first, each.next, *([each.replaced] if each.replaced else [])]
            for part, each in extents.items()
        }
    )


def _from_text(text: str) -> dict[int, Extent]:
    return {int(part): Extent(*values) for part, values in json.loads(text).items()}
