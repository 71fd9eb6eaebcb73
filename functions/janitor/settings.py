"""What the janitor is told: by its environment for good, by its event for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.parts.environment import given, needed, number, wanted
from functions.parts.lake import Lake, parse_lake
from sulina.errors import Refused

_EVENT = {"audit": bool, "delete": bool, "most_percent": int, "scheduled": str, "execution": str}


@dataclass(frozen=True, slots=True)
class Settings:
    """How careful it is."""

    lake: Lake
    delete: bool
    """Whether orphans are deleted, or only told."""
    audit: bool
    """Whether an audit is asked for in any case."""
    day: str
    """For which day this call is; an audit is asked for once a day."""
    upload_hours: int = 24
    """An upload that began so long ago is not ended by anybody."""
    orphan_hours: int = 168
    """An object younger than this is never an orphan."""
    most_percent: int = 10
    """With more orphans than this share of all objects, none is deleted: it is a mistake then."""


def settings_of(event: Mapping[str, Any], today: str) -> Settings:
    """Raises ``Refused`` for settings that make no sense, and for events with other fields."""
    for name, value in event.items():
        if name not in _EVENT or type(value) is not _EVENT[name]:
            raise Refused(
                f"the event has {name}: {value!r}, and may have "
                + ", ".join(f"{each} ({kind.__name__})" for each, kind in _EVENT.items())
            )
    percent = int(event.get("most_percent", number("SULINA_MOST_ORPHANS_PERCENT", 10)))
    if not 0 <= percent <= 100:
        raise Refused(f"most_percent is {percent} and must be from 0 to 100")
    return Settings(
        parse_lake(needed("SULINA_LAKE")),
        delete=bool(event.get("delete", wanted("SULINA_DELETE_ORPHANS"))),
        audit=bool(event.get("audit", False)),
        day=(event.get("scheduled") or today)[:10],
        upload_hours=number("SULINA_UPLOAD_HOURS", 24),
        orphan_hours=number("SULINA_ORPHAN_HOURS", 168),
        most_percent=percent,
    )


@dataclass(frozen=True, slots=True)
class Table:
    """The table whose empty partitions are forgotten."""

    database: str
    name: str


def table() -> Table | None:
    """As the environment names it; without one there is nothing to forget."""
    database, name = given("SULINA_GLUE_DATABASE"), given("SULINA_GLUE_TABLE")
    return Table(database, name) if database and name else None
