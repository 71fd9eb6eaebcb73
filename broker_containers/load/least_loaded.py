"""Finds the least loaded suitable broker, while topics are being assigned.

Heaps are lazy: an entry may be older than the load it refers to, and is corrected when it reaches
the top. Loads only grow in between, because topics are only added.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker_containers.load.rules import BrokerRequirements

_Key = tuple[object, object, bool]


@dataclass(slots=True)
class ProjectedBroker:
    """A broker with its projected load while a plan is made."""

    id: str
    load: float
    factor: float
    labels: frozenset[str]
    headroom: int = 1 << 30
    """Topics it may still receive in this plan."""


class LeastLoaded:
    """Brokers ordered by load, for each set of rules that a topic can have."""

    def __init__(self, slots: Mapping[str, ProjectedBroker]) -> None:
        self.slots = slots
        self._heaps: dict[_Key, list[tuple[float, str]]] = {}

    def members(self, needs: BrokerRequirements, *, preferred: bool = False) -> int:
        """How many brokers the rules allow."""
        return len(self._heap(needs, preferred=preferred))

    def best(
        self,
        needs: BrokerRequirements,
        accept: Callable[[ProjectedBroker], bool],
        *,
        preferred: bool = False,
        tries: int = 64,
    ) -> ProjectedBroker | None:
        """The least loaded broker that the rules allow and ``accept`` accepts."""
        heap = self._heap(needs, preferred=preferred)
        slots = self.slots
        passed: list[tuple[float, str]] = []
        found: ProjectedBroker | None = None
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

    def _heap(self, needs: BrokerRequirements, *, preferred: bool) -> list[tuple[float, str]]:
        key = (needs.strict, needs.soft if preferred else None, preferred)
        heap = self._heaps.get(key)
        if heap is None:
            allows = needs.prefers if preferred else needs.fits
            heap = [(slot.load, slot.id) for slot in self.slots.values() if allows(slot.labels)]
            heapq.heapify(heap)
            self._heaps[key] = heap
        return heap
