"""How each subscription type chooses the next part of a frame and the consumer for it.

A selector reads the window and the members and returns a pick; it changes neither. Within a frame
it picks in order, for first deliveries and redeliveries alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.loaded_frame import LoadedFrame
from sulina.errors import Refused
from sulina.model import SubscriptionType
from sulina.wire import selection


@dataclass(frozen=True, slots=True)
class Pick:
    """Deliver ``mask`` of ``loaded`` to ``member``, as attempt number ``attempt``."""

    loaded: LoadedFrame
    attempt: int
    mask: int
    member: AttachedConsumer


class Selector(Protocol):
    """The rule of one subscription type."""

    def join(self, member: AttachedConsumer, instead_of: AttachedConsumer | None) -> None:
        """Add a member, perhaps in place of one with the same name.

        Raises ``Refused`` if the type allows no more.
        """
        ...

    def leave(self, member: AttachedConsumer) -> None: ...

    def pick(self, window: DeliveryWindow, barrier: int | None) -> Pick | None:
        """The next delivery; None if no member can take anything.

        ``barrier``: the lowest record that failed too often and blocks later records that never
        failed.
        """
        ...

    def is_active(self, member: AttachedConsumer) -> bool:
        """Whether this member receives at present."""
        ...

    def flights_changed(self) -> None:
        """Records were acknowledged, returned or delayed."""
        ...


_PIECES = 64


def first_part(todo: Mapping[int, int]) -> tuple[int, int]:
    """The lowest records to do that have the same attempt number: the number and the records.

    They end where another attempt number begins, to keep redelivered and new records in order;
    unless that would split the frame into more than a few dozen pieces, each of which is sent as
    a whole frame.
    """
    if len(todo) == 1:
        return next(iter(todo.items()))
    attempt = min(todo, key=lambda number: todo[number] & -todo[number])
    others = 0
    for number, mask in todo.items():
        others |= mask if number != attempt else 0
    part = todo[attempt] & ((others & -others) - 1)
    if part.bit_count() * _PIECES < others.bit_count():
        return attempt, todo[attempt]
    return attempt, part


_PLACES = 1000
"""Names whose place in the queue is remembered after they leave."""


class SingleConsumerSelector:
    """Exclusive and Failover: one member receives everything in order; the others stand by.

    The active member stays active until it leaves, because every change means redeliveries. A
    member that returns gets its old place in the queue.
    """

    def __init__(self, type_: SubscriptionType) -> None:
        self._standby_allowed = type_ is SubscriptionType.FAILOVER
        self._members: list[AttachedConsumer] = []
        self._places: dict[str, int] = {}
        self._next_place = 0

    def join(self, member: AttachedConsumer, instead_of: AttachedConsumer | None) -> None:
        if instead_of is not None:
            self._members[self._members.index(instead_of)] = member
            return
        if self._members and not self._standby_allowed:
            raise Refused(
                f"the subscription is exclusive and {self._members[0].name!r} uses it: wait until "
                "it leaves, or subscribe as shared, failover or key_shared"
            )
        place = self._place_of(member.name)
        ahead = [m for m in self._members[1:] if self._places[m.name] < place]
        self._members.insert(len(self._members[:1]) + len(ahead), member)

    def _place_of(self, name: str) -> int:
        if name not in self._places:
            self._places[name] = self._next_place
            self._next_place += 1
            if len(self._places) > _PLACES:
                present = {member.name for member in self._members} | {name}
                gone = next((each for each in self._places if each not in present), None)
                if gone is not None:
                    del self._places[gone]
        return self._places[name]

    def leave(self, member: AttachedConsumer) -> None:
        self._members.remove(member)

    def is_active(self, member: AttachedConsumer) -> bool:
        return bool(self._members) and self._members[0] is member

    def flights_changed(self) -> None:
        pass

    def pick(self, window: DeliveryWindow, barrier: int | None) -> Pick | None:
        if not self._members or not self._members[0].can_take:
            return None
        loaded, todo = _first_allowed(window, barrier)
        return None if loaded is None else Pick(loaded, *first_part(todo), self._members[0])


def _first_allowed(
    window: DeliveryWindow, barrier: int | None
) -> tuple[LoadedFrame | None, Mapping[int, int]]:
    """The first frame with something to deliver in spite of ``barrier``, and what that is."""
    if barrier is None:
        loaded = window.first_ready()
        return loaded, {} if loaded is None else loaded.todo
    for loaded in window.ready():
        todo = {n: mask for n, mask in loaded.todo.items() if n > 1}
        before = loaded.todo.get(1, 0) & selection.span(0, barrier - loaded.base - 1)
        if before:
            todo[1] = before
        if todo:
            return loaded, todo
    return None, {}


class SharedSelector:
    """Shared: members take turns, frame by frame.

    If fewer frames are ready than members wait, a frame is split evenly, so that a large batch
    does not go to one consumer while the others are idle.
    """

    def __init__(self) -> None:
        self._members: list[AttachedConsumer] = []
        self._turn = 0
        self._cut: tuple[LoadedFrame, int, int] | None = None
        """The frame that is being split, the attempt, and the number of records per part."""

    def join(self, member: AttachedConsumer, instead_of: AttachedConsumer | None) -> None:
        if instead_of is not None:
            self.leave(instead_of)
        self._members.append(member)

    def leave(self, member: AttachedConsumer) -> None:
        index = self._members.index(member)
        del self._members[index]
        if index < self._turn:
            self._turn -= 1

    def is_active(self, member: AttachedConsumer) -> bool:
        return True

    def flights_changed(self) -> None:
        pass

    def pick(self, window: DeliveryWindow, barrier: int | None) -> Pick | None:
        loaded, todo = _first_allowed(window, barrier)
        takers = self._takers() if loaded is not None else []
        if loaded is None or not takers:
            return None
        attempt, mask = first_part(todo)
        limit = takers[0].records
        if window.ready_count < len(takers):
            limit = min(limit, self._even_part(loaded, attempt, mask, len(takers)))
        self._turn = (self._members.index(takers[0]) + 1) % len(self._members)
        return Pick(loaded, attempt, selection.lowest(mask, limit), takers[0])

    def _takers(self) -> list[AttachedConsumer]:
        turn = self._turn
        return [m for m in self._members[turn:] + self._members[:turn] if m.can_take]

    def _even_part(self, loaded: LoadedFrame, attempt: int, mask: int, parts: int) -> int:
        if self._cut is None or self._cut[:2] != (loaded, attempt):
            self._cut = loaded, attempt, -(-mask.bit_count() // parts)
        return self._cut[2]

    def spares(self, window: DeliveryWindow) -> bool:
        """Whether a frame must be split because too few are loaded for all waiting members."""
        return window.ready_count < len(self._takers())


def share_out(owners: list[int | None], members: Iterable[int]) -> list[int]:
    """Distribute slots evenly, moving as few as possible from the previous ``owners``."""
    numbers = sorted(members)
    assert numbers
    low, extra = divmod(len(owners), len(numbers))
    held: dict[int, list[int]] = {number: [] for number in numbers}
    free: list[int] = []
    for slot, owner in enumerate(owners):
        if owner in held:
            held[owner].append(slot)
        else:
            free.append(slot)
    ranked = sorted(numbers, key=lambda number: (-len(held[number]), number))
    quota = {number: low + (rank < extra) for rank, number in enumerate(ranked)}
    for number in numbers:
        free += held[number][quota[number] :]
    result = list(owners)
    for number in numbers:
        for _ in range(quota[number] - len(held[number])):
            result[free.pop()] = number
    return [owner for owner in result if owner is not None]
