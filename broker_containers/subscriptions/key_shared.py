"""KeyShared: records of one key go to one consumer at a time, in order.

Keys are hashed into 256 slots, and each slot belongs to one member. A slot is held back while
delivering could break its order: while one of its records waits for redelivery, or is in flight at
the slot's previous member. Members with key filters (globs) receive only keys that match; each key
then belongs to one of the members whose filters accept it, and waits if there is none.

Each member scans the frames once: where it found nothing it looks again only after records came
back or a slot was released, so members without credit do not slow down the others.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame
from broker_containers.subscriptions.selectors import Pick, first_part, share_out
from sulina.wire import selection

SLOTS = 256


class KeySharedSelector:
    """The selector of KeyShared subscriptions."""

    def __init__(self) -> None:
        self.has_filters = False
        """Whether choosing needs the keys themselves, not only their slots."""
        self._members: dict[int, AttachedConsumer] = {}
        self._owners: list[int | None] = [None] * SLOTS
        self._tables: dict[int, bytes] = {}
        self._assignment = 0
        self._turn = 0
        self._window: DeliveryWindow | None = None
        self._returns = 0
        self._starts: dict[int, int] = {}
        """Consumer number -> offset below which nothing is ready for it."""
        self._misplaced: list[tuple[LoadedFrame, Flight]] = []
        """Flights with records that now belong to another member."""
        self._held: frozenset[int] = frozenset()
        self._held_table = b""
        self._stale = True
        """The held slots may be out of date."""

    def join(self, member: AttachedConsumer, instead_of: AttachedConsumer | None) -> None:
        if instead_of is not None:
            self.leave(instead_of)
        self._members[member.number] = member
        self._assign()

    def leave(self, member: AttachedConsumer) -> None:
        del self._members[member.number]
        self._assign()

    def _assign(self) -> None:
        self.has_filters = any(member.key_filters for member in self._members.values())
        if self._members:
            self._owners = [*share_out(self._owners, self._members)]
        slots: dict[int, list[int]] = {number: [] for number in self._members}
        for slot, owner in enumerate(self._owners):
            if owner in slots:
                slots[owner].append(slot)
        self._tables = {number: selection.slot_table(mine) for number, mine in slots.items()}
        self._assignment += 1
        self._window = None

    def is_active(self, member: AttachedConsumer) -> bool:
        return True

    def flights_changed(self) -> None:
        self._stale = True

    def pick(self, window: DeliveryWindow, barrier: int | None) -> Pick | None:
        numbers = list(self._members)
        takers = [
            member
            for step in range(len(numbers))
            if (member := self._members[numbers[(self._turn + step) % len(numbers)]]).can_take
        ]
        if not takers or not window.ready_count:
            return None
        self._look_again(window)
        for member in takers:
            pick = self._next_of(window, member)
            if pick is not None:
                self._turn = (numbers.index(member.number) + 1) % len(numbers)
                return pick
        return None

    def _next_of(self, window: DeliveryWindow, member: AttachedConsumer) -> Pick | None:
        start = self._starts.get(member.number, 0)
        for loaded in window.ready(start):
            start = loaded.base + 1
            mine = self._share(loaded, member.number)
            if mine and self._held:
                mine &= ~self._of(loaded, self._held_table)
            todo = {n: mask & mine for n, mask in loaded.todo.items() if mask & mine}
            if todo:
                self._starts[member.number] = loaded.base
                return Pick(loaded, *first_part(todo), member)
        self._starts[member.number] = start
        return None

    # ---- which records belong to whom ----

    def _share(self, loaded: LoadedFrame, number: int) -> int:
        """The records of ``loaded`` that belong to a member."""
        if loaded.shares_of != self._assignment:
            loaded.shares_of, loaded.shares = self._assignment, {}
            if loaded.keys is not None and self.has_filters:
                loaded.shares = self._shares_by_key(loaded, loaded.keys)
        share = loaded.shares.get(number)
        if share is None:
            share = loaded.shares[number] = self._of(loaded, self._tables[number])
        return share

    def _shares_by_key(self, loaded: LoadedFrame, keys: list[str]) -> dict[int, int]:
        bits = {number: bytearray(b"0" * loaded.count) for number in self._members}
        slots = (
            bytes([loaded.slots]) * loaded.count if isinstance(loaded.slots, int) else loaded.slots
        )
        owners: dict[tuple[str, int], int | None] = {}
        for index, place in enumerate(zip(keys, slots, strict=True)):
            if place not in owners:
                owners[place] = self._owner_of(*place)
            owner = owners[place]
            if owner is not None:
                bits[owner][index] = 0x31
        return {number: int(mine[::-1], 2) for number, mine in bits.items()}

    def _owner_of(self, key: str, slot: int) -> int | None:
        accepting = [m.number for m in self._members.values() if _accepts(m, key)]
        owner = self._owners[slot]
        if owner in accepting or not accepting:
            return owner if accepting else None
        return accepting[slot % len(accepting)]

    @staticmethod
    def _of(loaded: LoadedFrame, table: bytes) -> int:
        """The records of ``loaded`` in the slots of ``table``."""
        if isinstance(loaded.slots, int):
            return selection.whole(loaded.count) if table[loaded.slots] == 0x31 else 0
        return selection.of_slots(loaded.slots, table)

    # ---- which slots are held back ----

    def _look_again(self, window: DeliveryWindow) -> None:
        """Update the state after changes since the last pick."""
        if window is not self._window:  # after a seek, or when members joined or left
            self._window, self._stale, self._held = window, True, frozenset()
            self._starts.clear()
            self._misplaced = [
                (loaded, flight)
                for loaded in window.frames.values()
                for flight in loaded.flights
                if flight.mask & ~self._share(loaded, flight.consumer)
            ]
        if window.returns != self._returns:
            self._returns = window.returns
            self._starts.clear()
        if self._stale:
            self._stale = False
            held = self._slots_to_hold(window)
            if held != self._held:
                self._starts.clear()
                self._held, self._held_table = held, selection.slot_table(held)

    def _slots_to_hold(self, window: DeliveryWindow) -> frozenset[int]:
        held: set[int] = set()
        self._misplaced = [(loaded, flight) for loaded, flight in self._misplaced if flight.mask]
        for loaded, flight in self._misplaced:
            held |= _slots_of(loaded, flight.mask & ~self._share(loaded, flight.consumer))
        for loaded in window.waiting():
            for waiting in loaded.waiting:
                held |= _slots_of(loaded, waiting.mask)
        return frozenset(held)


def _accepts(member: AttachedConsumer, key: str) -> bool:
    filters = member.key_filters
    return not filters or any(fnmatchcase(key, pattern) for pattern in filters)


def _slots_of(loaded: LoadedFrame, mask: int) -> set[int]:
    if isinstance(loaded.slots, int):
        return {loaded.slots} if mask else set()
    return set(selection.pick(loaded.slots, mask))
