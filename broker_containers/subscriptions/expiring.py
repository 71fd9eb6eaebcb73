"""Passes over what expired before a consumer took it: in a delivery, or in what is loaded.

Records in dead letters are done only when those are stored.
"""

from __future__ import annotations

from dataclasses import replace

from broker_containers.subscriptions.dead_letters import DeadLetter
from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.loaded_frame import LoadedFrame
from broker_containers.subscriptions.selectors import Pick


def expire_pick(dispatcher: Dispatcher, pick: Pick, expired: int) -> Pick | None:
    """Take the ``expired`` records out of a delivery that was not sent; None if none is left.

    Call it before ``next`` is called again.
    """
    late, member = pick.mask & expired, pick.member
    count = late.bit_count()
    member.records += count
    member.sent -= count
    dispatcher.counters.delivered -= count
    if pick.attempt > 1:
        dispatcher.counters.redelivered -= count
    rest = pick.mask & ~late
    if not rest:
        member.bytes += pick.loaded.size
    if dispatcher.reliable:
        for flight in pick.loaded.flights:
            if flight.consumer == member.number and flight.mask & late:
                flight.mark -= count
        expire(dispatcher, pick.loaded, late, pick.attempt)
    else:
        dispatcher.counters.expired += count  # it was settled when it was picked
    return replace(pick, mask=rest) if rest else None


def expire(dispatcher: Dispatcher, loaded: LoadedFrame, mask: int, attempt: int = 1) -> None:
    """Pass over records that nobody took in time; ``attempt`` would have been their next."""
    if dispatcher.policy.dead_letter_expired:
        dead = dispatcher.window.bury(loaded, mask)
        if dead:
            letter = DeadLetter(loaded.base, dead, attempt - 1, "expired", expired=True)
            dispatcher.dead_letters.append(letter)
    else:
        dispatcher.counters.expired += dispatcher.window.settle(loaded, mask)
    dispatcher.after_settling()


def expire_loaded(dispatcher: Dispatcher, ttl_ms: int, wall_us: int) -> bool:
    """Pass over what is loaded, not in flight, and has expired; returns whether there was any.

    What consumers have is theirs: they may still acknowledge it.
    """
    late = [
        loaded
        for loaded in dispatcher.window.frames.values()
        if loaded.life.over(ttl_ms, wall_us) and loaded.untaken
    ]
    for loaded in late:
        attempt = min(number for number, part in loaded.unfinished() if part & loaded.untaken)
        expire(dispatcher, loaded, loaded.untaken, attempt)
    return bool(late)
