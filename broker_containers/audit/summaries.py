"""Summarises equal events: the first is written at once, the others as a count per interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sulina.audit import AuditEntry, AuditEvent

_SECOND_US: Final = 1_000_000
_INTERVALS_US: Final = {AuditEvent.SIGN_IN: 3600 * _SECOND_US}
_INTERVAL_US: Final = 60 * _SECOND_US
MOST_ROWS: Final = 512
OTHERS: Final = "(others)"
"""The principal of events that are counted together because there are too many different ones."""


@dataclass(slots=True)
class _Repeats:
    """Events that were counted and not written yet."""

    written_us: int
    count: int = 0
    first_us: int = 0
    last_us: int = 0


class Summaries:
    """A table of recent events; it has at most ``most`` rows, and one per type of event.

    Events are equal if only their time and detail differ. Sign-ins are summarised every hour,
    everything else every minute.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._rows: dict[AuditEntry, _Repeats] = {}

    def add(self, entry: AuditEntry) -> AuditEntry | None:
        """The entry to write now; None if it was counted."""
        key = replace(entry, time_us=0, detail="")
        if key not in self._rows and len(self._rows) >= self._most:
            # One row for all of them: a caller can make up any number of names.
            shared = replace(entry, principal=OTHERS, address="", operation="", resource="")
            entry, key = shared, replace(shared, time_us=0, detail="")
        row = self._rows.get(key)
        if row is None:
            self._rows[key] = _Repeats(entry.time_us)
            return entry
        row.first_us = row.first_us if row.count else entry.time_us
        row.last_us = entry.time_us
        row.count += 1
        return None

    def due(self, now_us: int, *, all_rows: bool = False) -> list[AuditEntry]:
        """The summaries to write now: of rows whose interval is over, or of all."""
        found: list[AuditEntry] = []
        for key, row in list(self._rows.items()):
            interval = _INTERVALS_US.get(key.event, _INTERVAL_US)
            # A clock that was set back must not delay the summary.
            if not all_rows and 0 <= now_us - row.written_us < interval:
                continue
            if row.count:
                summary = replace(key, time_us=row.first_us, count=row.count, last_us=row.last_us)
                found.append(summary)
                self._rows[key] = _Repeats(now_us)
            else:
                del self._rows[key]
        return found
