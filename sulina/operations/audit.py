"""Reading the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from sulina.audit import AuditEvent, AuditOutcome, AuditRecord, ChainHead, TrailStart
from sulina.operations.declaration import CLUSTER, GET, OperationGroup, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count

MOST_RECORDS: Final = 1_000
"""The most that one call returns."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A record and its offset in the topic; null for one that can't be read."""

    offset: Count
    record: AuditRecord | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Records of the audit trail, in the order in which they were written or the reverse."""

    records: tuple[AuditRow, ...]
    next_offset: Annotated[Count, "Where to continue."]
    at_end: bool
    heads: Annotated[
        tuple[ChainHead, ...], "The ends of the chains that are known, one per broker."
    ]
    starts: Annotated[
        tuple[TrailStart, ...], "Where the trail may begin, if old records were deleted."
    ]


class AuditOperations(OperationGroup, name="audit"):
    """Operations on the audit trail."""

    @operation(GET("/audit"), right=CLUSTER)
    async def list(
        self,
        *,
        offset: Annotated[
            Count | None, "Start at this offset; null starts at ``since_us``."
        ] = None,
        limit: Annotated[int, Between(1, MOST_RECORDS), "Return at most this many."] = 100,
        principal: str | None = None,
        operation: str | None = None,
        resource: str | None = None,
        event: AuditEvent | None = None,
        outcome: AuditOutcome | None = None,
        since_us: Count = 0,
        until_us: Annotated[Count | None, "null is no limit."] = None,
        newest_first: Annotated[
            bool, "Begin with the newest, or with the one before ``offset``."
        ] = False,
    ) -> AuditPage:
        """List audit records; a page may be empty although more follow."""
