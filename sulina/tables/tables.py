"""The tables of a lake's topics in one database of a catalog: the calls of commands and functions.

All calls block on the catalog and the store, and raise ``NotFound``, ``Refused`` or
``Unavailable``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from sulina.errors import NotFound
from sulina.lake.schema import VALUE_ERROR
from sulina.names import TopicName
from sulina.tables.committing import OBJECTS_PER_COMMIT, Committed, bring_up_to_date
from sulina.tables.iceberg import (
    TOPIC,
    IcebergTable,
    catalog_errors,
    find_table,
    make_table,
)
from sulina.tables.latest import LatestTable, make_latest
from sulina.tables.objects import Lake, LakeTopic
from sulina.tables.planning import Gap
from sulina.tables.showing import (
    SampleRow,
    TableDetails,
    TableState,
    details_of,
    sample_of,
    state_of,
)
from sulina.tables.totals import rejected_in

DATABASE: Final = "sulina"
FOLDER: Final = "iceberg"
"""Where the metadata of tables is stored, next to the ledgers."""
JOBS_FOLDER: Final = "tables"
"""Where tables with files of their own are, such as those that jobs write."""
SNAPSHOTS_KEPT: Final = 1000
"""Every commit writes the list of all snapshots."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record whose payload does not fit its schema."""

    partition: int
    offset: int
    publish_time: datetime
    value_error: str
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class Upserted:
    """What merging records into a table of newest rows did."""

    table: str
    records: int
    """How many were merged."""
    rows: int
    """How many the table has now."""
    gaps: tuple[Gap, ...]


class Tables:
    """The tables of one lake."""

    def __init__(self, lake: Lake, catalog: Catalog, database: str = DATABASE) -> None:
        self._lake = lake
        self._catalog = catalog
        self._database = database

    def list(self, *, must_exist: bool = False) -> list[TableState]:
        """All tables of topics in the database, which ``must_exist`` or else has none."""
        with catalog_errors("read"):
            try:
                names = self._catalog.list_tables(self._database)
            except NoSuchNamespaceError:
                if must_exist:
                    raise NotFound(
                        f"the catalog has no database {self._database}: check its name, or let "
                        "`sulina table backfill --all` make it"
                    ) from None
                return []
            found = [self._catalog.load_table(name) for name in names]
        return [state_of(table) for table in found if TOPIC in table.properties]

    def topics(self) -> tuple[TopicName, ...]:
        """The topics that have objects in the lake."""
        return tuple(self._lake.topics())

    def to_update(self) -> tuple[TopicName, ...]:
        """The topics that have objects, and those whose table still has some, all being deleted.

        Raises ``NotFound`` if there is neither a lake nor such a table.
        """
        held = {TopicName.parse(each.topic) for each in self.list() if each.objects}
        try:
            return tuple(sorted(held.union(self._lake.topics())))
        except NotFound:
            if not held:
                raise
            return tuple(sorted(held))

    def describe(self, topic: TopicName) -> TableState:
        """One of them."""
        return state_of(find_table(self._catalog, self._database, topic))

    def details(self, topic: TopicName, snapshots: int = 20) -> TableDetails:
        """One of them with its columns and its newest snapshots."""
        return details_of(find_table(self._catalog, self._database, topic), snapshots)

    def sample(self, topic: TopicName, most: int) -> tuple[SampleRow, ...]:
        """The newest rows of a table, up to ``most``, in the order of their offsets."""
        table = find_table(self._catalog, self._database, topic)
        with catalog_errors("read"):
            return sample_of(table, most)

    def backfill(
        self,
        topic: TopicName,
        most: int = OBJECTS_PER_COMMIT,
        in_time: Callable[[], bool] = lambda: True,
    ) -> Committed:
        """Bring a topic's table up to date with its objects; create it if there is none.

        May be repeated, and run in several processes at once. Commits at most ``most`` objects at a
        time, and no more when ``in_time`` returns False. Raises ``NotFound`` for a topic that has
        neither objects nor a table.
        """
        objects = LakeTopic(self._lake, topic)
        try:
            table = find_table(self._catalog, self._database, topic)
        except NotFound:
            if not objects.list():  # an empty table would be made
                raise NotFound(
                    f"{topic} has neither objects in {self._lake.place.url} nor a table: check its "
                    "name, and that a ledger was tiered (sulina ledger offload)"
                ) from None
            location = f"{self._lake.place.url}/{FOLDER}"
            table = make_table(self._catalog, self._database, topic, location)
        iceberg = IcebergTable(table, self._lake.url, objects.footer)
        return bring_up_to_date(iceberg, objects, most, in_time)

    def rejected(self, topic: TopicName, most: int) -> tuple[int, tuple[Rejected, ...]]:
        """How many payloads do not fit the schema, and the first ``most`` of them.

        Reads the files that have some, by what the table knows of them.
        """
        table = find_table(self._catalog, self._database, topic)
        with catalog_errors("read"):
            if VALUE_ERROR not in table.schema().column_names:
                return 0, ()
            scan = table.scan(row_filter=f"{VALUE_ERROR} is not null")
            count = sum(rejected_in(task.file) for task in scan.plan_files())
            rows = scan.select(*Rejected.__dataclass_fields__).update(limit=most).to_arrow()
        return count, tuple(Rejected(**row) for row in rows.to_pylist())

    def upsert(self, topic: TopicName) -> Upserted:
        """Merge a topic's objects into the table of the newest row of each key.

        Creates the table if there is none. May be repeated, and run in several processes at once.
        """
        if not self._lake.objects(topic):
            raise NotFound(f"{topic} has no objects in {self._lake.place.url}")
        location = f"{self._lake.place.url}/{JOBS_FOLDER}"
        table = make_latest(self._catalog, self._database, topic, location)
        records, gaps = LatestTable(table, self._lake).merge(LakeTopic(self._lake, topic))
        with catalog_errors("read"):
            rows = table.refresh().scan().count()
        return Upserted(".".join(table.name()), records, rows, gaps)

    def rebuild(self, topic: TopicName) -> Committed:
        """Forget a topic's table and its history, and make it anew from the objects.

        The old metadata files stay in the store; no object is deleted.
        """
        if not self._lake.objects(topic):
            raise NotFound(f"{topic} has no objects in {self._lake.place.url}: nothing was changed")
        with suppress(NotFound):
            table = find_table(self._catalog, self._database, topic)
            with catalog_errors("changed"):
                self._catalog.drop_table(table.name())
        return self.backfill(topic)

    def expire(self, topic: TopicName, before_us: int) -> int:
        """Forget snapshots committed before a time, and all but the newest ``SNAPSHOTS_KEPT``.

        Returns how many. The table's current snapshot stays. Queries as of those times are no
        longer possible. No object is deleted. Raises ``Unavailable`` if somebody else commits
        meanwhile.
        """
        table = find_table(self._catalog, self._database, topic)
        current = table.metadata.current_snapshot_id
        kept = {ref.snapshot_id for ref in table.refs().values()}
        newest_first = sorted(table.snapshots(), key=lambda each: -each.timestamp_ms)
        forgotten = [
            each.snapshot_id
            for newer, each in enumerate(newest_first)
            if newer >= SNAPSHOTS_KEPT or each.timestamp_ms * 1000 < before_us
            if each.snapshot_id not in kept
        ]
        if not forgotten:
            return 0
        # Otherwise a rollback meanwhile could make one of them the current snapshot.
        same = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": current})
        with catalog_errors("changed"):
            transaction = table.transaction()
            update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": forgotten})
            transaction._apply((update,), (same,))
            transaction.commit_transaction()
        return len(forgotten)
