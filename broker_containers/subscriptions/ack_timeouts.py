"""Finds deliveries that were not acknowledged before the ack timeout."""

from __future__ import annotations

from collections.abc import Mapping

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame


def take_timed_out(
    window: DeliveryWindow, members: Mapping[int, AttachedConsumer], timeout: float, now: float
) -> tuple[list[tuple[LoadedFrame, Flight]], float]:
    """Remove timed-out flights from their frames; returns them and when the next one times out."""
    late: list[tuple[LoadedFrame, Flight]] = []
    following = NEVER
    for loaded in window.frames.values():
        on_time: list[Flight] = []
        for flight in loaded.flights:
            deadline = _since(flight, members.get(flight.consumer)) + timeout
            if deadline <= now:
                late.append((loaded, flight))
            else:
                on_time.append(flight)
                following = min(following, deadline)
        if len(on_time) < len(loaded.flights):
            loaded.flights = on_time
    return late, following


def _since(flight: Flight, member: AttachedConsumer | None) -> float:
    """When the ack timeout of a flight started.

    That is when the application received it. While it is in the consumer's queue, the consumer's
    last progress counts: a slow consumer keeps what it was sent, a stuck one loses it.
    """
    if member is not None and not flight.taken:
        flight.since = max(flight.since, member.progress)
        flight.taken = member.returned >= flight.mark
    return flight.since
