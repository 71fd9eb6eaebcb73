"""Checks the delivery times that producers ask for."""

from __future__ import annotations

from typing import Final

from sulina.errors import Refused
from sulina.model import Delivery
from sulina.runtime.seam import Buffer
from sulina.wire.header import FrameHeader, read_due

_CLOCKS_APART_US: Final = 60_000_000
"""Tolerance for a producer's clock that is ahead of the broker's."""


def check_delay(
    frame: Buffer, header: FrameHeader, delivery: Delivery, wall_us: int, most_seconds: int
) -> None:
    """Raise ``Refused`` if a frame asks for a delivery time that its topic cannot keep."""
    due_us = read_due(frame, header)
    if due_us is None:
        return
    if delivery is not Delivery.RELIABLE:
        raise Refused(
            "a non_reliable topic stores nothing and cannot delay messages: publish without a "
            "delay, or to a reliable topic"
        )
    if due_us > wall_us + most_seconds * 1_000_000 + _CLOCKS_APART_US:
        days = (due_us - wall_us) / 86_400e6
        raise Refused(
            f"the delivery time is {days:,.1f} days ahead by the broker's clock, but at most "
            f"{most_seconds / 86_400:,.4g} are allowed: choose an earlier one"
        )
