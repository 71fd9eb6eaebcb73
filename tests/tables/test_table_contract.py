"""What the code that commits relies on: the simulated catalog and real ones behave the same.

The REST catalog is that of ``tests.support.rest_catalog``, or the one whose URL
``SULINA_REST_CATALOG`` has, which must see this machine's files. Iceberg's own is
``org.apache.iceberg.rest.RESTCatalogServer`` in the test fixtures of ``iceberg-open-api``:
port 8181, ``CATALOG_WAREHOUSE`` and ``CATALOG_URI`` in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from uuid import uuid4

import pytest

from localstack.emulators.server import EmulatorServer
from sulina.errors import Unavailable, UnknownOutcome
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.committing import Conflict, TopicTable
from sulina.tables.iceberg import IcebergTable, find_table, make_table
from sulina.tables.objects import Lake, LakePlace, LakeTopic
from sulina.tables.planning import CommitPlan, Extent, plan
from tests.simulation.catalog import SimTable, TableState
from tests.spark.lake_folder import LakeFolder
from tests.support.rest_catalog import running_rest_catalog

ORDERS = TopicName.parse("/default/orders")
REST = os.environ.get("SULINA_REST_CATALOG", "")


class OneTable(Protocol):
    """A topic's table, as tests see it."""

    def handle(self) -> TopicTable:
        """As another process opens it."""

    def files(self) -> list[int]:
        """The first offsets of its files, sorted."""

    def rewrite(self) -> None:
        """Commit the same files as an engine does, without our summary."""

    def roll_back(self) -> None:
        """Undo the newest snapshot."""

    def lose_answer(self, patch: pytest.MonkeyPatch, handle: TopicTable) -> None:
        """Let the next commit of ``handle`` take effect, and its answer be lost."""


class SimulatedTable:
    """The simulation's."""

    def __init__(self, objects: LakeTopic) -> None:
        self._state = TableState()
        self._objects = objects

    def handle(self) -> SimTable:
        def next_of(name: Any) -> int:
            return self._objects.summary(name).last_offset + 1

        return SimTable(lambda: self._state.current, self._state.commit, next_of)

    def files(self) -> list[int]:
        return sorted(each.name.first_offset for each in self._state.current.files)

    def rewrite(self) -> None:
        self._state.rewrite()

    def roll_back(self) -> None:
        self._state.roll_back(self._state.current.number - 1)

    def lose_answer(self, patch: pytest.MonkeyPatch, handle: TopicTable) -> None:
        def lossy(*arguments: Any) -> None:
            self._state.commit(*arguments)
            raise Unavailable("the answer was lost")

        patch.setattr(handle, "_commit", lossy)


class CatalogTable:
    """One in a real catalog."""

    def __init__(self, url: str, lake: LakeFolder, objects: LakeTopic) -> None:
        place = LakePlace.parse(str(lake.root))
        self._lake, self._objects = Lake(place), objects
        self._catalog = open_catalog(url, place)
        self._database = f"contract_{uuid4().hex[:8]}"
        make_table(self._catalog, self._database, ORDERS, f"{place.url}/iceberg")

    def _table(self) -> Any:
        return find_table(self._catalog, self._database, ORDERS)

    def handle(self) -> IcebergTable:
        return IcebergTable(self._table(), self._lake.url, self._objects.footer)

    def files(self) -> list[int]:
        found = [task.file.file_path for task in self._table().scan().plan_files()]
        return sorted(int(path.rpartition("/")[2].partition("-")[0]) for path in found)

    def rewrite(self) -> None:
        with self._table().transaction() as change:
            change.update_snapshot().fast_append().commit()

    def roll_back(self) -> None:
        table = self._table()
        before = table.current_snapshot().parent_snapshot_id
        table.manage_snapshots().rollback_to_snapshot(before).commit()

    def lose_answer(self, patch: pytest.MonkeyPatch, handle: TopicTable) -> None:
        commit = type(self._catalog).commit_table

        def lossy(*arguments: Any) -> None:
            commit(*arguments)
            patch.undo()
            raise ConnectionError("reset")

        patch.setattr(type(self._catalog), "commit_table", lossy)


@pytest.fixture
def objects(lake: LakeFolder) -> LakeTopic:
    """Five objects of ten records."""
    for _ in range(5):
        lake.add(str(ORDERS), 10)
    return LakeTopic(Lake(LakePlace.parse(str(lake.root))), ORDERS)


@pytest.fixture(scope="module")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """A process."""
    folder = tmp_path_factory.mktemp("rest")
    with running_rest_catalog(folder, folder.as_uri()) as server:
        yield server


@pytest.fixture(params=["simulated", "sqlite", "glue", "rest"])
def one(
    request: pytest.FixtureRequest,
    lake: LakeFolder,
    objects: LakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> OneTable:
    """A table without snapshots."""
    if request.param == "simulated":
        return SimulatedTable(objects)
    url = f"sqlite:///{lake.root.parent}/catalog.db"
    if request.param == "glue":
        moto: EmulatorServer = request.getfixturevalue("moto")
        for variable, value in moto.variables.items():
            monkeypatch.setenv(variable, value)
        url = "glue:us-east-1"
    elif request.param == "rest":
        rest: EmulatorServer = request.getfixturevalue("rest_catalog")
        url = REST or rest.url
    return CatalogTable(url, lake, objects)


@pytest.fixture
def planned(objects: LakeTopic) -> Callable[..., CommitPlan]:
    """Plans the next commit of a handle, as the code that commits does."""

    def make(handle: TopicTable, most: int = 2, gone: int = 0) -> CommitPlan:
        listed = {part: names[gone:] for part, names in objects.list().items()}
        return plan(handle.extents(), listed, objects.summary, most)

    return make


def test_everybody_sees_what_was_committed(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    first = one.handle()
    assert first.extents() == {}
    first.commit(planned(first))
    first.commit(planned(first))
    assert one.handle().extents() == first.extents() == {0: Extent(0, 40)}
    assert one.files() == [0, 10, 20, 30]


def test_a_commit_that_was_planned_from_another_state_is_refused_whole(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    one_handle, rival = one.handle(), one.handle()
    for each in (0, 1):  # to a table without snapshots, too
        mine, theirs = planned(one_handle), planned(rival, most=1)
        rival.commit(theirs)
        with pytest.raises(Conflict):
            one_handle.commit(mine)
        assert one.files() == [0, 10][: each + 1]
    one_handle.commit(planned(one_handle))
    assert one.files() == [0, 10, 20, 30]


def test_what_retention_deleted_is_removed_and_the_rest_stays(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    handle = one.handle()
    handle.commit(planned(handle, most=4))
    handle.commit(planned(handle, gone=3))
    assert one.files() == [30, 40]
    assert handle.extents() == {0: Extent(30, 50)}


def test_progress_is_rolled_back_with_the_table(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    handle = one.handle()
    handle.commit(planned(handle))
    handle.commit(planned(handle))
    one.roll_back()
    assert handle.extents() == {0: Extent(0, 20)}
    handle.commit(planned(handle))
    assert one.files() == [0, 10, 20, 30]


def test_a_rollback_refuses_what_was_planned_before_it(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    handle = one.handle()
    handle.commit(planned(handle))
    handle.commit(planned(handle))
    stale = planned(handle)
    one.roll_back()
    with pytest.raises(Conflict):
        handle.commit(stale)
    assert one.files() == [0, 10]


def test_after_a_snapshot_of_somebody_else_the_files_say_how_far_the_table_got(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    handle = one.handle()
    handle.commit(planned(handle))
    one.rewrite()
    assert handle.extents() == {0: Extent(0, 20)}


def test_a_lost_answer_is_an_unknown_outcome(
    one: OneTable, planned: Callable[..., CommitPlan]
) -> None:
    handle = one.handle()
    handle.commit(planned(handle))
    with pytest.MonkeyPatch.context() as patch:
        one.lose_answer(patch, handle)
        with pytest.raises(UnknownOutcome):
            handle.commit(planned(handle))
    assert handle.extents() == {0: Extent(0, 40)}
    assert one.files() == [0, 10, 20, 30]
