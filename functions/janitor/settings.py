"""The janitor's settings: from its environment, and from the event of one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from functions.shared.environment import flag, required
from functions.shared.lake import LakeLocation, parse_lake
from sulina.errors import Refused

_EVENT: Final = {
    "audit": bool,
    "delete": bool,
    "max_percent": int,
    "scheduled": str,
    "execution": str,
}
_MAX_PERCENT: Final = 10


@dataclass(frozen=True, slots=True)
class JanitorSettings:
    """What one call does."""

    lake: LakeLocation
    delete: bool
    """Whether to delete orphans, or only report them."""
    audit: bool
    """Whether to start an audit even if nothing is wrong."""
    day: str
    """The day of this call; audits are started once per day."""
    max_percent: int
    """If more than this percentage of all objects are orphans, none is deleted."""


def settings_of(event: Mapping[str, Any], today: str) -> JanitorSettings:
    """Raises ``Refused`` for invalid settings, and for events with other fields."""
    for name, value in event.items():
        if name not in _EVENT or type(value) is not _EVENT[name]:
            raise Refused(
                f"the event has {name}: {value!r} but may only have "
                + ", ".join(f"{each} ({kind.__name__})" for each, kind in _EVENT.items())
            )
    percent = int(event.get("max_percent", _MAX_PERCENT))
    if not 0 <= percent <= 100:
        raise Refused(f"max_percent is {percent} but must be from 0 to 100")
    return JanitorSettings(
        parse_lake(required("SULINA_LAKE")),
        delete=bool(event.get("delete", flag("SULINA_DELETE_ORPHANS"))),
        audit=bool(event.get("audit", False)),
        day=(event.get("scheduled") or today)[:10],
        max_percent=percent,
    )
