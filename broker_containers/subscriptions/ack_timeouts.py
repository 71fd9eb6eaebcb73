"""When a delivery that nobody acknowledges counts as failed."""

from __future__ import annotations

from collections.abc import Mapping

from broker_containers.subscriptions.consumers import Member
from broker_containers.subscriptions.delivery_window import Window
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.loaded_frame import Flight, Track


def take_late(
    window: Window, members: Mapping[int, Member], timeout: float, now: float
) -> tuple[list[tuple[Track, Flight]], float]:
    """Take the flights whose time is up out of their frames; with them, when the next will be."""
    late: list[tuple[Track, Flight]] = []
    following = NEVER
    for track in window.tracks.values():
        on_time: list[Flight] = []
        for flight in track.flights:
            deadline = _since(flight, members.get(flight.consumer)) + timeout
            if deadline <= now:
                late.append((track, flight))
            else:
                on_time.append(flight)
                following = min(following, deadline)
        if len(on_time) < len(track.flights):
            track.flights = on_time
    return late, following


def _since(flight: Flight, member: Member | None) -> float:
    """When the time of a flight began to run.

    That is when the application took it. Until then (it stands in the consumer's queue) it is the
    consumer's last sign of progress: a slow consumer keeps what it was given, a stuck one loses
    it.
    """
    if member is not None and not flight.taken:
        flight.since = max(flight.since, member.progress)
        flight.taken = member.returned >= flight.mark
    return flight.since
