"""Handler of the operation that reads the audit trail. Any broker runs it, and asks the owner."""

from __future__ import annotations

from typing import Final

from broker_containers.operations.running import handles
from sulina.audit import TOPIC, AuditEvent, AuditOutcome, AuditRecord, decode
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import audit
from sulina.metadata.store import MetadataStore
from sulina.model import Start
from sulina.operations.audit import AuditOperations, AuditPage, AuditRow
from sulina.operations.client import AdminClient

_PAGE: Final = 1_000
_MOST_READ: Final = 10_000
"""Records that one call looks at."""


class AuditHandlers:
    """``admin`` reaches the owner of the topic."""

    def __init__(self, store: MetadataStore, admin: AdminClient) -> None:
        self._store = store
        self._admin = admin

    @handles(AuditOperations.list)
    async def list(
        self,
        *,
        offset: int | None = None,
        limit: int = 100,
        principal: str | None = None,
        operation: str | None = None,
        resource: str | None = None,
        event: AuditEvent | None = None,
        outcome: AuditOutcome | None = None,
        since_us: int = 0,
        until_us: int | None = None,
    ) -> AuditPage:
        wanted = {
            "principal": principal,
            "operation": operation,
            "resource": resource,
            "event": event,
            "outcome": outcome,
        }
        filters = {name: value for name, value in wanted.items() if value is not None}

        def matches(record: AuditRecord | None) -> bool:
            if record is None:
                return not filters
            times = since_us <= max(record.time_us, record.last_us) and (
                until_us is None or record.time_us < until_us
            )
            return times and all(getattr(record, name) == each for name, each in filters.items())

        # Before the records, which then have at least these.
        heads = tuple(await audit.heads(self._store))
        starts = await audit.starts(self._store)
        start = Start.time(since_us) if offset is None else Start.offset(offset)
        found: list[AuditRow] = []
        following, at_end, read = offset or 0, False, 0
        while not at_end and len(found) < limit and read < _MOST_READ:
            try:
                page = await self._admin.messages.peek(TOPIC, start=start, limit=_PAGE)
            except NotFound:
                if heads:
                    raise
                raise Refused(
                    "there is no audit trail: brokers started with --auth or --audit on write one"
                ) from None
            following, at_end = page.next_offset, page.at_end
            for message in page.messages:
                read += 1
                record = _decoded(message.payload)
                if matches(record):
                    found.append(AuditRow(message.offset, record))
                    if len(found) == limit:
                        following = message.offset + 1
                        at_end = at_end and following == page.next_offset
                        break
            start = Start.offset(following)
        return AuditPage(tuple(found), following, at_end, heads, starts)


def _decoded(payload: bytes) -> AuditRecord | None:
    try:
        return decode(payload)
    except ValueError:
        return None
