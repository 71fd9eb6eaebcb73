"""Delivery times of delayed records. Pure: the caller supplies the time."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isfinite
from typing import Final

from sulina.errors import Refused
from sulina.model import Delivery
from sulina.wire.header import MAX_TIME_US

_SECOND_US: Final = 1_000_000
_PART: Final = 100
"""A delay may be extended by a hundredth, so that records sent at about the same time share a
frame: all records of a frame have the same delivery time."""
_FINEST_US: Final = 1_000
_COARSEST_US: Final = _SECOND_US
_DAY_US: Final = 86_400 * _SECOND_US

DeliverAt = datetime | float
"""A point in time: a datetime with a time zone, or seconds since 1970."""
Delay = timedelta | float
"""A duration: a timedelta, or seconds."""


def due_time(deliver_at: DeliverAt | None, delay: Delay | None, wall_us: int) -> int | None:
    """The delivery time in microseconds since 1970; None if it is not in the future.

    ``deliver_at`` is exact to the microsecond, ``delay`` is rounded up. Raises ``Refused`` for an
    invalid time.
    """
    if deliver_at is not None and delay is not None:
        raise Refused("give deliver_at or delay, not both")
    if deliver_at is not None:
        due_us = _microseconds(deliver_at)
    elif delay is not None:
        due_us = _after(delay, wall_us)
    else:
        return None
    if due_us > MAX_TIME_US:
        raise Refused("the delivery time is too far in the future: choose an earlier one")
    return due_us if due_us > wall_us else None


def check_due(topic: str, delivery: Delivery, ahead_us: int, most_us: int) -> None:
    """Raise ``Refused`` if a topic cannot delay a record by ``ahead_us``."""
    if delivery is not Delivery.RELIABLE:
        raise Refused(
            f"{topic} is {delivery} and stores nothing, so records cannot be delayed: "
            "send without a delay, or to a reliable topic"
        )
    if ahead_us > most_us + _COARSEST_US:  # rounding may have added this
        raise Refused(
            f"the delivery time is {ahead_us / _DAY_US:,.1f} days ahead, and {topic} allows at "
            f"most {most_us / _DAY_US:,.4g}: choose an earlier one"
        )


def _microseconds(moment: DeliverAt) -> int:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise Refused("deliver_at needs a time zone: use datetime.now(UTC) + ..., or delay=")
        return round(moment.timestamp() * _SECOND_US)
    return round(_number("deliver_at", moment, "a datetime or seconds since 1970") * _SECOND_US)


def _after(delay: Delay, wall_us: int) -> int:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    span_us = round(_number("delay", seconds, "a timedelta or seconds") * _SECOND_US)
    if span_us < 0:
        raise Refused(f"delay cannot be negative, but is {seconds:g} s")
    step = min(max(span_us // _PART, _FINEST_US), _COARSEST_US)
    return -(-(wall_us + span_us) // step) * step if span_us else 0


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return value
    raise Refused(f"{name} must be {expected}, not {value!r}")
