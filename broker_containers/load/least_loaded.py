"""The least loaded broker that will do, kept up to date while topics are handed out.

Heaps are lazy: an entry may be older than the load it stands for, and is corrected when it comes
to the top. Loads may only grow in between, which is what handing out topics does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker_containers.load.rules import BrokerRequirements

_Key = tuple[object, object, bool]


@dataclass(slots=True)
class TargetBroker:
    """A broker to choose, as the choice sees it."""

    id: str
    load: float
    factor: float
    labels: frozenset[str]
    headroom: int = 1 << 30
    """Topics it may still get this time."""


class LeastLoaded:
    """Brokers in the order of their load, for each set of rules a topic can come with."""

    def __init__(self, slots: Mapping[str, TargetBroker]) -> None:
        self.slots = slots
        self._heaps: dict[_Key, list[tuple[float, str]]] = {}

    def members(self, wish: BrokerRequirements, *, preferred: bool = False) -> int:
        """How many brokers the rules leave."""
        return len(self._heap(wish, preferred=preferred))

    def best(
        self,
        wish: BrokerRequirements,
        accept: Callable[[TargetBroker], bool],
        *,
        preferred: bool = False,
        tries: int = 64,
    ) -> TargetBroker | None:
        """The least loaded broker that the rules allow and ``accept`` takes, in some tries."""
        heap = self._heap(wish, preferred=preferred)
        slots = self.slots
        passed: list[tuple[float, str]] = []
        found: TargetBroker | None = None
        while heap and len(passed) < tries:
            load, broker = heap[0]
            slot = slots[broker]
            if load < slot.load:
                heapq.heapreplace(heap, (slot.load, broker))
                continue
            if accept(slot):
                found = slot
                break
            passed.append(heapq.heappop(heap))
        for entry in passed:
            heapq.heappush(heap, entry)
        return found

    def _heap(self, wish: BrokerRequirements, *, preferred: bool) -> list[tuple[float, str]]:
        key = (wish.strict, wish.soft if preferred else None, preferred)
        heap = self._heaps.get(key)
        if heap is None:
            allows = wish.prefers if preferred else wish.fits
            heap = [(slot.load, slot.id) for slot in self.slots.values() if allows(slot.labels)]
            heapq.heapify(heap)
            self._heaps[key] = heap
        return heap
