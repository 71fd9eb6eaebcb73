"""Tables follow when objects are replaced: their files are exchanged, each record once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import UnknownOutcome
from sulina.lake.generations import newest_objects
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from sulina.names import TopicName
from sulina.tables.committing import Conflict, bring_up_to_date
from sulina.tables.iceberg import find_table
from sulina.tables.planning import CommitPlan, Extent, Extents, checksum
from sulina.tables.tables import Tables
from tests.spark.lake_folder import LakeFolder, payload_of
from tests.tables.conftest import MakeTables

ORDERS = TopicName.parse("/default/orders")


def offsets(tables: Tables, snapshot: int | None = None) -> list[int]:
    table = find_table(tables._catalog, "sulina", ORDERS)
    found = table.scan(snapshot_id=snapshot, selected_fields=("offset",)).to_arrow()
    return sorted(found.column("offset").to_pylist())


def test_files_are_exchanged_in_one_snapshot_and_older_ones_still_work(
    lake: LakeFolder, tables: Tables
) -> None:
    for _ in range(5):
        lake.add(str(ORDERS), 20)
    tables.backfill(ORDERS)
    before = find_table(tables._catalog, "sulina", ORDERS).snapshots()[-1].snapshot_id
    old = lake.objects()[1:4]
    lake.replace(old, 1)
    done = tables.backfill(ORDERS)
    assert (done.commits, done.objects, done.exchanged) == (1, 1, 3)
    assert tables.describe(ORDERS).objects == 3
    assert offsets(tables) == list(range(100)) == offsets(tables, before)
    assert tables.backfill(ORDERS).commits == 0
    for path in old:
        path.unlink()
    assert tables.backfill(ORDERS).commits == 0
    lake.add(str(ORDERS), 5)
    assert tables.backfill(ORDERS).objects == 1
    assert offsets(tables) == list(range(105))


def test_an_object_that_begins_in_the_table_and_ends_after_it_is_taken_once(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add(str(ORDERS), 20)
    tables.backfill(ORDERS)
    for _ in range(3):
        lake.add(str(ORDERS), 20)
    lake.replace(lake.objects()[:3], 1)
    done = tables.backfill(ORDERS)
    assert (done.commits, done.exchanged) == (1, 1)
    assert offsets(tables) == list(range(80))


def test_a_replacement_that_was_given_up_is_exchanged_back(
    lake: LakeFolder, tables: Tables
) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 20)
    given_up = lake.replace(lake.objects(), 1)
    tables.backfill(ORDERS)
    assert tables.describe(ORDERS).objects == 1
    given_up.unlink()
    done = tables.backfill(ORDERS)
    assert (done.objects, done.exchanged) == (3, 1)
    assert offsets(tables) == list(range(60))


def test_records_lack_columns_until_their_objects_are_rewritten_also_after_a_rollback(
    lake: LakeFolder, tables: Tables
) -> None:
    definition = b'{"properties": {"id": {"type": "integer"}}}'
    typed = table_schema((SchemaVersion(1, 1, "json_schema", definition),))
    for _ in range(3):
        lake.add(str(ORDERS), 10)
    tables.backfill(ORDERS)
    before = find_table(tables._catalog, "sulina", ORDERS).snapshots()[-1].snapshot_id
    lake.replace(lake.objects()[:1], 1, typed)
    lake.add(str(ORDERS), 5)
    tables.backfill(ORDERS)
    assert tables.describe(ORDERS).lacking_columns == 25
    lake.replace(lake.objects()[2:3], 2, typed)
    tables.backfill(ORDERS)
    assert tables.describe(ORDERS).lacking_columns == 15
    table = find_table(tables._catalog, "sulina", ORDERS)
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert tables.describe(ORDERS).lacking_columns == 30


def test_rewritten_objects_bring_their_typed_columns_with_them(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add(str(ORDERS), 30)
    tables.backfill(ORDERS)
    definition = b'{"properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}'
    table = table_schema((SchemaVersion(1, 1, "json_schema", definition),))
    lake.replace(lake.objects(), 1, table)
    tables.backfill(ORDERS)
    rows = find_table(tables._catalog, "sulina", ORDERS).scan().to_arrow().to_pylist()
    assert [row["value"]["id"] for row in rows] == list(range(30))
    assert rows[7]["payload"] == payload_of(7)


def test_of_two_committers_one_exchanges_and_the_other_finds_nothing_left(
    lake: LakeFolder, make_tables: MakeTables
) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 20)
    first, second = make_tables(), make_tables()
    first.backfill(ORDERS)
    lake.replace(lake.objects(), 1)
    assert second.backfill(ORDERS).exchanged == 3
    assert first.backfill(ORDERS).commits == 0
    assert offsets(first) == list(range(60))


def test_a_rebuilt_table_has_only_the_newest_objects(lake: LakeFolder, tables: Tables) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 20)
    lake.replace(lake.objects(), 1)
    assert tables.rebuild(ORDERS).objects == 1
    assert offsets(tables) == list(range(60))


class Model:
    """A topic whose owner replaces objects of ten records, and its table, which forgets answers."""

    def __init__(self) -> None:
        self.named: list[ObjectName] = []
        self.listed: set[ObjectName] = set()
        self.generation = 0
        self.files: set[ObjectName] = set()
        self._extents: dict[int, Extent] = {}
        self._read: tuple[Extents, frozenset[ObjectName]] = {}, frozenset()
        self.outcome = "committed"

    # ---- the topic ----

    def end(self, name: ObjectName) -> int:
        return name.last_offset + 1 if name.generation else name.first_offset + 10

    def publish(self) -> None:
        first = self.end(self.named[-1]) if self.named else 0
        self.named.append(ObjectName("default", "orders", 0, first, first + 1))
        self.listed.add(self.named[-1])

    def replace(self, start: int, stop: int, *, give_up: bool) -> ObjectName:
        run = self.named[start:stop]
        self.generation += 1
        place = run[0].first_offset, run[-1].ledger, self.generation, self.end(run[-1]) - 1
        new = ObjectName("default", "orders", 0, *place)
        self.listed.add(new)
        if not give_up:
            self.named[start:stop] = [new]
        return new

    # ---- what a committer sees ----

    def list(self) -> dict[int, list[ObjectName]]:
        return {0: newest_objects(self.listed, lambda name: name)} if self.listed else {}

    def summary(self, name: ObjectName) -> ObjectSummary:
        first, after = name.first_offset, self.end(name)
        return ObjectSummary(ORDERS, name.ledger, first, after - 1, after - first, 1, 2, "", 9, 9)

    def extents(self) -> Extents:
        self._read = dict(self._extents), frozenset(self.files)
        return self._read[0]

    def files_of(self, partition: int) -> dict[ObjectName, int]:
        return {name: self.end(name) for name in self._read[1]}

    def commit(self, planned: CommitPlan) -> None:
        outcome, self.outcome = self.outcome, "committed"
        if outcome == "conflict" or self._read[0] != self._extents:
            raise Conflict("changed")
        assert planned.exchanged <= self.files and not set(planned.added) & self.files
        self.files = (self.files - planned.exchanged) | set(planned.added)
        self._extents = dict(planned.extents)
        self.check()
        if outcome == "lost":
            raise UnknownOutcome("the answer was lost")

    def check(self) -> None:
        """At every commit the table has each offset once, without a gap."""
        at = 0
        for name in sorted(self.files):
            assert name.first_offset == at
            at = self.end(name)
        assert self._extents[0].next == at


class ModelTable:
    def __init__(self, model: Model) -> None:
        self.extents, self.commit, self.files = model.extents, model.commit, model.files_of


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_replaced_when_the_table_has_each_record_once(data: Any) -> None:
    model = Model()
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(("publish", "replace", "give up", "delete", "sync")))
        if step == "publish" or not model.named:
            model.publish()
        elif step in ("replace", "give up"):
            start = data.draw(st.integers(0, len(model.named) - 1))
            stop = data.draw(st.integers(start + 1, len(model.named)))
            model.replace(start, stop, give_up=step == "give up")
        elif step == "delete":
            unnamed = sorted(model.listed - set(model.named))
            model.listed -= set(data.draw(st.sets(st.sampled_from(unnamed)))) if unnamed else set()
        else:
            model.outcome = data.draw(st.sampled_from(("committed", "lost", "conflict")))
            bring_up_to_date(ModelTable(model), model, most=data.draw(st.integers(1, 3)))
    model.listed = set(model.named)
    bring_up_to_date(ModelTable(model), model, most=2)
    assert sorted(model.files) == sorted(model.named)
    assert model.extents()[0].replaced == checksum(model.list()[0], model.end(model.named[-1]))
