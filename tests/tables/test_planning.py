"""Which objects a commit adds and which it removes, for every way in which objects come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import UnknownOutcome
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName
from sulina.tables.committing import Conflict, bring_up_to_date
from sulina.tables.planning import CommitPlan, Extent, Extents, Gap, plan

TOPIC = TopicName.parse("/default/orders")


def name(first: int, partition: int = 0) -> ObjectName:
    return ObjectName("default", "orders", partition, first, first + 1)


@dataclass
class World:
    """Objects of ten records each, which appear in any order and disappear oldest first."""

    objects: dict[int, list[int]] = field(default_factory=dict)

    def list(self) -> dict[int, list[ObjectName]]:
        return {
            part: [name(first, part) for first in sorted(firsts)]
            for part, firsts in self.objects.items()
        }

    def summary(self, each: ObjectName) -> ObjectSummary:
        first = each.first_offset
        return ObjectSummary(TOPIC, each.ledger, first, first + 9, 10, 1, 2, "", 100, 100)


def planned(extents: Extents, objects: dict[int, list[int]], most: int = 100) -> CommitPlan:
    world = World(objects)
    return plan(extents, world.list(), world.summary, most)


def test_a_new_table_takes_all_objects_in_order() -> None:
    found = planned({}, {0: [0, 10, 20], 1: [50]})
    assert [each.first_offset for each in found.added] == [0, 10, 20, 50]
    assert found.extents == {0: Extent(0, 30), 1: Extent(50, 60)}


def test_a_commit_takes_no_more_than_the_limit() -> None:
    found = planned({}, {0: [0, 10, 20]}, most=2)
    assert [each.first_offset for each in found.added] == [0, 10]
    assert found.extents == {0: Extent(0, 20)}


def test_the_first_objects_are_added_also_if_they_arrive_after_later_ones() -> None:
    began = {0: Extent(20, 30)}
    found = planned(began, {0: [10, 20, 30]})
    assert [each.first_offset for each in found.added] == [10, 30]
    assert found.extents == {0: Extent(10, 40)}
    apart = planned(began, {0: [0, 20]})
    assert apart.is_empty
    assert apart.gaps == (Gap(0, 10, 20),)


def test_what_the_table_has_is_not_added_again() -> None:
    assert planned({0: Extent(0, 30)}, {0: [0, 10, 20]}).is_empty


def test_a_gap_ends_what_is_taken() -> None:
    found = planned({0: Extent(0, 10)}, {0: [0, 20, 30]})
    assert found.is_empty
    assert found.gaps == (Gap(0, 10, 20),)


def test_what_retention_deleted_is_removed() -> None:
    found = planned({0: Extent(0, 30)}, {0: [20, 30]})
    assert found.removed_before == {0: 20}
    assert found.extents == {0: Extent(20, 40)}


def test_a_table_all_of_whose_objects_are_deleted_goes_on_with_the_next_one() -> None:
    found = planned({0: Extent(0, 30)}, {0: [50]})
    assert (found.removed_before, found.extents) == ({0: 50}, {0: Extent(50, 60)})
    found = planned({0: Extent(0, 30)}, {})
    assert (found.removed_before, found.extents) == ({0: 30}, {0: Extent(30, 30)})
    assert planned({0: Extent(30, 30)}, {}).is_empty


class SharedTable:
    """A table with compare-and-swap, shared by committers; a test decides what each call meets."""

    def __init__(self, *, compares: bool = True) -> None:
        self.compares = compares
        self.version = 0
        self.current: dict[int, Extent] = {}
        self.files: list[ObjectName] = []

    def swap(self, seen: int, change: CommitPlan) -> None:
        if self.compares and seen != self.version:
            raise Conflict
        self.version += 1
        self.current = dict(change.extents)
        self.files = [
            each
            for each in self.files
            if each.first_offset >= change.removed_before.get(each.partition, 0)
        ]
        self.files += change.added


@dataclass
class Committer:
    """Its view of the table. ``meets`` is called before each commit and names its fate."""

    table: SharedTable
    meets: list[str]
    rival: World | None = None
    seen: int = -1

    def extents(self) -> Extents:
        self.seen = self.table.version
        return dict(self.table.current)

    def files(self, partition: int) -> dict[ObjectName, int]:
        raise AssertionError("nothing is replaced here")

    def commit(self, change: CommitPlan) -> None:
        fate = self.meets.pop() if self.meets else "fine"
        if fate == "rival" and self.rival is not None:
            bring_up_to_date(Committer(self.table, []), self.rival, most=1)
        if fate == "lost before":
            raise UnknownOutcome("no answer")
        self.table.swap(self.seen, change)
        if fate == "lost after":
            raise UnknownOutcome("no answer")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 1), st.integers(0, 3)),
        st.tuples(st.just("trim"), st.integers(0, 1), st.integers(1, 2)),
        st.tuples(
            st.just("commit"),
            st.lists(st.sampled_from(["fine", "rival", "lost before", "lost after"]), max_size=4),
            st.integers(1, 3),
        ),
    ),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=300, deadline=None)
def test_each_object_is_in_the_table_once_and_in_order_whatever_happens_to_commits(
    steps: list[tuple[str, object, int]],
) -> None:
    world, table = World({0: [], 1: []}), SharedTable()
    made = {0: 0, 1: 0}
    for what, which, count in steps:
        if what == "add":
            assert isinstance(which, int)
            for _ in range(count):
                world.objects[which].append(made[which] * 10)
                made[which] += 1
        elif what == "trim":
            assert isinstance(which, int)
            del world.objects[which][:count]
        else:
            assert isinstance(which, list)
            bring_up_to_date(Committer(table, list(which), world), world, most=count)
    bring_up_to_date(Committer(table, []), world)
    for part, firsts in world.objects.items():
        found = [each.first_offset for each in table.files if each.partition == part]
        assert found == firsts


def test_without_the_comparison_a_rival_doubles_objects() -> None:
    world, table = World({0: [0]}), SharedTable(compares=False)
    bring_up_to_date(Committer(table, ["rival"], world), world)
    assert [each.first_offset for each in table.files] == [0, 0]
