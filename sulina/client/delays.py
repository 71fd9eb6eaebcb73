"""Delivery and expiry times of records. Pure: the caller supplies the time."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isfinite
from typing import Final, NamedTuple

from sulina.errors import Refused
from sulina.model import Delivery
from sulina.wire.header import MAX_TIME_US

_SECOND_US: Final = 1_000_000
_PART: Final = 100
"""A delay may be extended by a hundredth, and an expiry shortened, so that records sent at about
the same time share a frame: all records of a frame have the same delivery and expiry time."""
_FINEST_US: Final = 1_000
_COARSEST_US: Final = _SECOND_US
_DAY_US: Final = 86_400 * _SECOND_US

DeliverAt = datetime | float
"""A point in time: a datetime with a time zone, or seconds since 1970."""
Delay = timedelta | float
"""A duration: a timedelta, or seconds."""
Expires = datetime | timedelta | float
"""A point in time (a datetime with a time zone), or a duration (a timedelta, or seconds)."""


class Timing(NamedTuple):
    """When records may be delivered. Only records with the same times share a frame."""

    due_us: int | None
    expires_us: int | None


def timing(
    deliver_at: DeliverAt | None, delay: Delay | None, expires: Expires | None, wall_us: int
) -> Timing | None:
    """The times of a record; None if it has none. Raises ``Refused`` for an invalid one."""
    due_us = due_time(deliver_at, delay, wall_us)
    expires_us = None if expires is None else expiry_time(expires, wall_us)
    if due_us is not None and expires_us is not None and expires_us <= due_us:
        raise Refused("the record would expire before it is delivered: let it expire later")
    return None if due_us is None and expires_us is None else Timing(due_us, expires_us)


def expiry_time(expires: Expires, wall_us: int) -> int:
    """The expiry time in microseconds since 1970. A duration is rounded down."""
    if isinstance(expires, datetime):
        expires_us = _microseconds("expires", expires)
    else:
        span_us = _span("expires", expires)
        step = _step(span_us)
        expires_us = (wall_us + span_us) // step * step
    if not wall_us < expires_us:
        raise Refused("the record has expired already: choose a later time")
    if expires_us > MAX_TIME_US:
        raise Refused("the expiry time is too far in the future: choose an earlier one")
    return expires_us


def due_time(deliver_at: DeliverAt | None, delay: Delay | None, wall_us: int) -> int | None:
    """The delivery time in microseconds since 1970; None if it is not in the future.

    ``deliver_at`` is exact to the microsecond, ``delay`` is rounded up. Raises ``Refused`` for an
    invalid time.
    """
    if deliver_at is not None and delay is not None:
        raise Refused("give deliver_at or delay, not both")
    if deliver_at is not None:
        due_us = _microseconds("deliver_at", deliver_at)
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


def _microseconds(name: str, moment: DeliverAt) -> int:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise Refused(f"{name} needs a time zone: use datetime.now(UTC) + ..., or a duration")
        return round(moment.timestamp() * _SECOND_US)
    return round(_number(name, moment, "a datetime or seconds since 1970") * _SECOND_US)


def _after(delay: Delay, wall_us: int) -> int:
    span_us = _span("delay", delay)
    step = _step(span_us)
    return -(-(wall_us + span_us) // step) * step if span_us else 0


def _span(name: str, duration: Delay) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    span_us = round(_number(name, seconds, "a timedelta or seconds") * _SECOND_US)
    if span_us < 0:
        raise Refused(f"{name} cannot be negative, but is {seconds:g} s")
    return span_us


def _step(span_us: int) -> int:
    """What a time that lies this far ahead is rounded to."""
    return min(max(span_us // _PART, _FINEST_US), _COARSEST_US)


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return value
    raise Refused(f"{name} must be {expected}, not {value!r}")
