"""When a delivery that nobody acknowledges counts as failed."""

from __future__ import annotations

from collections.abc import Mapping

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame


def take_timed_out(
    window: DeliveryWindow, members: Mapping[int, AttachedConsumer], timeout: float, now: float
) -> tuple[list[tuple[LoadedFrame, Flight]], float]:
    """Take the flights whose time is up out of their frames; with them, when the next will be."""
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
    """When the time of a flight began to run.

    That is when the application took it. Until then (it stands in the consumer's queue) it is the
    consumer's last sign of progress: a slow consumer keeps what it was given, a stuck one loses
    it.
    """
    if member is not None and not flight.taken:
        flight.since = max(flight.since, member.progress)
        flight.taken = member.returned >= flight.mark
    return flight.since
