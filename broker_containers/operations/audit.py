"""Handler of the operation that reads the audit trail. Any broker runs it, and asks the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from broker_containers.operations.running import handles
from sulina.audit import TOPIC, AuditEvent, AuditOutcome, AuditRecord, decode
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import audit
from sulina.metadata.store import MetadataStore
from sulina.model import Start
from sulina.operations.audit import AuditOperations, AuditPage, AuditRow
from sulina.operations.client import AdminClient
from sulina.operations.messages import StoredMessage

_Matches: TypeAlias = Callable[[AuditRecord | None], bool]
_Found: TypeAlias = tuple[tuple[AuditRow, ...], int, bool]
"""What was found, where to continue, and whether that is the end."""

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
        newest_first: bool = False,
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
        read = self._backwards if newest_first else self._forwards
        try:
            found = await read(matches, Start.time(since_us), offset, limit)
        except NotFound:
            if heads:
                raise
            raise Refused(
                "there is no audit trail: brokers started with --auth or --audit on write one"
            ) from None
        return AuditPage(*found, heads, starts)

    async def _forwards(
        self, matches: _Matches, start: Start, offset: int | None, limit: int
    ) -> _Found:
        if offset is not None:
            start = Start.offset(offset)
        found: list[AuditRow] = []
        following, at_end, read = offset or 0, False, 0
        while not at_end and len(found) < limit and read < _MOST_READ:
            page = await self._admin.messages.peek(TOPIC, start=start, limit=_PAGE)
            following, at_end = page.next_offset, page.at_end
            for row in _rows(page.messages):
                read += 1
                if matches(row.record):
                    found.append(row)
                    if len(found) == limit:
                        following = row.offset + 1
                        at_end = at_end and following == page.next_offset
                        break
            start = Start.offset(following)
        return tuple(found), following, at_end

    async def _backwards(
        self, matches: _Matches, start: Start, offset: int | None, limit: int
    ) -> _Found:
        """Reads windows forwards, each one before the last."""
        log = await self._admin.topics.log(TOPIC)
        high = log.end_offset if offset is None else min(offset, log.end_offset)
        lowest = max(log.start_offset, high - _MOST_READ)
        found: list[AuditRow] = []
        while high > lowest:
            low = max(high - _PAGE, lowest)
            for row in reversed(await self._window(low, high)):
                if matches(row.record):
                    found.append(row)
                    if len(found) == limit:
                        return tuple(found), row.offset, row.offset <= log.start_offset
            high = low
        return tuple(found), high, high <= log.start_offset

    async def _window(self, low: int, high: int) -> Sequence[AuditRow]:
        """Large records come in several answers."""
        rows: list[AuditRow] = []
        while low < high:
            page = await self._admin.messages.peek(TOPIC, start=Start.offset(low), limit=high - low)
            rows += [row for row in _rows(page.messages) if row.offset < high]
            low = page.next_offset
            if page.at_end:
                break
        return rows


def _rows(messages: Sequence[StoredMessage]) -> list[AuditRow]:
    return [AuditRow(each.offset, _decoded(each.payload)) for each in messages]


def _decoded(payload: bytes) -> AuditRecord | None:
    try:
        return decode(payload)
    except ValueError:
        return None
