"""Brings a topic's table up to date, each object exactly once, whatever else commits to it.

A commit is conditional on the state of the table that it was planned from. If the table has
changed, or the answer was lost, the table is read again and the commit is planned anew: what is
there already is not planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from sulina.errors import Unavailable, UnknownOutcome
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.tables.planning import CommitPlan, Extents, Gap, plan

OBJECTS_PER_COMMIT: Final = 1000
_ATTEMPTS: Final = 20


class Conflict(Exception):
    """The table has changed since it was read: nothing was committed."""


class TopicTable(Protocol):
    """A topic's table in a catalog. Calls block."""

    def extents(self) -> Extents:
        """Read the table: the offsets that it has of each partition."""
        ...

    def files(self, partition: int) -> Mapping[ObjectName, int]:
        """The objects that the table has of a partition, as it was last read, each with the offset
        after its last. Raises ``Refused`` if it has other files."""
        ...

    def commit(self, planned: CommitPlan) -> None:
        """Commit ``planned`` if the table is as it was last read, or raise ``Conflict``.

        Raises ``UnknownOutcome`` if the answer was lost, and ``Unavailable``.
        """
        ...


class TopicObjects(Protocol):
    """The objects of a topic. Calls block."""

    def list(self) -> dict[int, list[ObjectName]]:
        """Each partition's objects, in the order of their offsets."""
        ...

    def summary(self, name: ObjectName) -> ObjectSummary:
        """What an object contains, from its footer."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """What bringing a table up to date did."""

    commits: int
    objects: int
    records: int
    removed_before: dict[int, int]
    conflicts: int
    gaps: tuple[Gap, ...]
    complete: bool = True
    """False if the time ran out before all objects were added."""
    exchanged: int = 0
    """Objects that left the table because others have their records."""


def bring_up_to_date(
    table: TopicTable,
    objects: TopicObjects,
    most: int = OBJECTS_PER_COMMIT,
    in_time: Callable[[], bool] = lambda: True,
) -> Committed:
    """Commit what is missing, exchange what was replaced, remove what retention deleted. Blocks.

    Objects that appear meanwhile are left to the next call, and so is the rest when ``in_time``
    returns False before a commit of at most ``most`` objects. Raises ``Unavailable`` if other
    committers win again and again.
    """
    listed = objects.list()
    commits = added = records = conflicts = exchanged = 0
    removed: dict[int, int] = {}
    while True:
        planned = plan(table.extents(), listed, objects.summary, most, table.files)
        if planned.is_empty or not in_time():
            gaps, complete = planned.gaps, planned.is_empty
            return Committed(commits, added, records, removed, conflicts, gaps, complete, exchanged)
        try:
            table.commit(planned)
        except (Conflict, UnknownOutcome) as error:
            conflicts += 1
            if conflicts == _ATTEMPTS:
                raise Unavailable(
                    f"the table changed {_ATTEMPTS} times while it was brought up to date "
                    f"({error}): let one process at a time commit to it"
                ) from None
            continue
        commits += 1
        added += len(planned.added)
        records += sum(objects.summary(name).records for name in planned.added)
        exchanged += len(planned.exchanged)
        removed.update(planned.removed_before)
