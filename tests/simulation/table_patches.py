"""Tables of topics without one of their safeguards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sulina.errors import UnknownOutcome
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.tables import committing, planning
from sulina.tables.committing import Conflict
from sulina.tables.planning import CommitPlan, Extents, plan
from tests.simulation.catalog import SimTable

if TYPE_CHECKING:
    from tests.simulation.switches import Switches

_Listed = Mapping[int, Sequence[ObjectName]]
_SummaryOf = Callable[[ObjectName], ObjectSummary]
_FilesOf = Callable[[int], Mapping[ObjectName, int]]


def changes(switches: Switches) -> list[tuple[Any, str, Any]]:
    """What to patch: object, attribute, replacement."""
    found: list[tuple[Any, str, Any]] = []
    if not switches.plan_again:
        found.append((SimTable, "commit", _retry_blindly(SimTable.commit)))
    if not switches.wait_at_gaps:
        found.append((committing, "plan", _skip_gaps))
    if not switches.add_earlier_objects:
        found.append((committing, "plan", _forward_only))
    if not switches.forget_deleted:
        found.append((committing, "plan", _remove_nothing))
    if not switches.exchange_replaced:
        found.append((planning, "checksum", lambda objects, end: ""))
    if not switches.files_of_others:
        found.append((SimTable, "extents", _trust_summaries))
    return found


def _retry_blindly(commit: Callable[[SimTable, CommitPlan], None]) -> Any:
    """As pyiceberg's own retries: the same files, on top of what the table has now."""

    def retry(table: SimTable, planned: CommitPlan) -> None:
        try:
            commit(table, planned)
        except (Conflict, UnknownOutcome):
            table.extents()
            commit(table, planned)

    return retry


def _skip_gaps(
    extents: Extents, listed: _Listed, summary_of: _SummaryOf, most: int, files_of: _FilesOf
) -> CommitPlan:
    """Take what is there, in whatever order it came."""
    planned = plan(extents, listed, summary_of, most, files_of)
    if planned.added or not planned.gaps:
        return planned
    gap = planned.gaps[0]
    after = [name for name in listed[gap.partition] if name.first_offset >= gap.end]
    ended = replace(planned.extents[gap.partition], next=summary_of(after[0]).last_offset + 1)
    changed = {**planned.extents, gap.partition: ended}
    return replace(planned, added=(after[0],), extents=changed)


def _forward_only(
    extents: Extents, listed: _Listed, summary_of: _SummaryOf, most: int, files_of: _FilesOf
) -> CommitPlan:
    """Never look before the table's first offset."""
    later = {
        part: [
            name
            for name in names
            if part not in extents or name.first_offset >= extents[part].first
        ]
        for part, names in listed.items()
    }
    return plan(extents, later, summary_of, most, files_of)


def _remove_nothing(
    extents: Extents, listed: _Listed, summary_of: _SummaryOf, most: int, files_of: _FilesOf
) -> CommitPlan:
    planned = plan(extents, listed, summary_of, most, files_of)
    kept = {
        part: replace(each, first=extents[part].first) if part in planned.removed_before else each
        for part, each in planned.extents.items()
    }
    return replace(planned, removed_before={}, extents=kept)


def _trust_summaries(table: SimTable) -> Extents:
    table._base = table._read()
    return table._base.extents or {}
