"""Ends a call before Lambda does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_RESERVE_MS: Final = 60_000


def in_time(context: Any) -> Callable[[], bool]:
    """Whether more than a minute is left of a call, whose context Lambda gives."""
    left = getattr(context, "get_remaining_time_in_millis", None)
    return lambda: left is None or left() > _RESERVE_MS
