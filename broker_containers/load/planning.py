"""One planning session: projected loads, moves made so far, remaining limits.

``repair`` moves topics to brokers that the rules allow, ``shed`` moves load away from overloaded
brokers, ``fill`` moves load to underloaded ones. Each stops when the result is good enough, and
none increases the highest load (except ``repair``, because rules take precedence over balance).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import fmean, pstdev

from broker_containers.load.decision import Move, MoveReason, SkipReason
from broker_containers.load.least_loaded import LeastLoaded, ProjectedBroker
from broker_containers.load.move_log import RecentMoves
from broker_containers.load.rules import BrokerRequirements, PlacementRules
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.source_topics import SourceTopics
from broker_containers.load.view import Balance, BrokerLoad, ClusterView

_FAILURES = 32
"""Topics of one broker that are tried without success before giving up on the broker."""


class PlanningSession:
    """Makes moves on a copy of the loads of trusted brokers."""

    def __init__(
        self,
        view: ClusterView,
        believed: Sequence[BrokerLoad],
        settings: BalanceSettings,
        rules: PlacementRules,
        recent: RecentMoves,
        reasons: Counter[SkipReason],
        *,
        mean: float,
        full: Collection[str],
    ) -> None:
        self.moves: list[Move] = []
        self.total_cost = sum(sum(one.costs) for one in view.brokers.values())
        self._view = view
        self._settings = settings
        self._rules = rules
        self._recent = recent
        self._reasons = reasons
        self._mean = mean
        self._moves_left = settings.moves_per_interval - recent.moves
        self._cost_left = settings.load_per_interval * self.total_cost - recent.cost
        self._fresh_window = recent.moves == 0
        self._slots = {
            one.id: ProjectedBroker(
                one.id,
                one.load,
                one.factor,
                one.labels,
                settings.moves_per_broker - recent.by_broker[one.id],
            )
            for one in believed
        }
        self._takers = LeastLoaded(self._open(full))
        self._donors: dict[str, SourceTopics] = {}
        self._got: set[str] = set()
        self._staying = recent.cooling
        self._groups: dict[str, Counter[str]] | None = None

    def repair(self) -> None:
        """Move topics that a strict rule does not allow where they are."""
        if self._rules.empty:
            return
        # Cooldowns and load do not block a rule.
        everyone = LeastLoaded(
            {one.id: one for one in self._slots.values() if not self._rules.closed(one.id)}
        )
        repaired: set[str] = set()
        for slot in self._slots.values():
            broker = self._view.brokers[slot.id]
            for topic, cost in zip(broker.topics, broker.costs, strict=True):
                needs = self._rules.requirements(topic)
                if needs.fits(slot.labels):
                    continue
                if self._exhausted(slot, cost):
                    break
                target = everyone.best(needs, _has_room)
                if target is None:
                    self._reasons[SkipReason.AFFINITY] += 1
                else:
                    self._move(topic, cost, slot, target, MoveReason.AFFINITY)
                    repaired.add(topic)
        self._staying |= repaired

    def shed(self, brokers: Iterable[str], stop: float) -> None:
        """Move load away from ``brokers`` until none is above ``stop``; the fullest first."""
        queue = [(-self._slots[one].load, one) for one in brokers]
        heapq.heapify(queue)
        while queue:
            _, name = heapq.heappop(queue)
            slot = self._slots[name]
            enough = stop + self._settings.min_move * self._mean
            if slot.load > enough and self._shed_one(slot, stop):
                heapq.heappush(queue, (-slot.load, name))

    def fill(self, brokers: Iterable[str], stop: float) -> None:
        """Move load to ``brokers`` until none is below ``stop``; the emptiest first."""
        takers = sorted((self._slots[one] for one in brokers), key=lambda one: (one.load, one.id))
        queue = [
            (-slot.load, slot.id)
            for slot in self._slots.values()
            if slot.load > self._mean and slot.id not in self._got
        ]
        heapq.heapify(queue)
        for taker in takers:
            if taker.id not in self._takers.slots:
                continue
            while taker.load < stop - self._settings.min_move * self._mean and queue:
                _, name = heapq.heappop(queue)
                donor = self._slots[name]
                if self._fill_one(donor, taker, stop) and donor.load > taker.load:
                    heapq.heappush(queue, (-donor.load, name))
                if taker.headroom <= 0 or self._moves_left <= 0:
                    break

    def balance_after(self, before: Balance) -> Balance:
        """The balance after the moves. The mean stays the same."""
        if not self.moves:
            return before
        loads = [slot.load for slot in self._slots.values()]
        mean = fmean(loads)
        spread = pstdev(loads) / mean if mean > 0 else 0.0
        return Balance(before.mean, max(loads), min(loads), spread, before.bound)

    def _shed_one(self, slot: ProjectedBroker, stop: float) -> bool:
        """Make one move away from ``slot``; False if trying again is useless."""
        donor = self._donor(slot)
        if donor is None:
            return False
        for _ in range(_FAILURES):
            lowest = self._takers.best(_ANY, _has_room)
            if not len(donor) or lowest is None:
                break
            most = (stop - lowest.load) / lowest.factor
            place = donor.fitting((slot.load - stop) / slot.factor, most)
            if place is None:
                return self._halve(donor, slot, lowest)
            topic, cost = donor.at(place)
            if self._exhausted(slot, cost):
                return False
            donor.drop(place)
            target = self._target(topic, cost, slot, stop)
            if target is not None:
                self._move(topic, cost, slot, target, MoveReason.OVERLOAD)
                return True
        self._reasons[SkipReason.NO_BETTER_TARGET] += 1
        return False

    def _fill_one(self, slot: ProjectedBroker, taker: ProjectedBroker, stop: float) -> bool:
        """Make one move from ``slot`` to ``taker``; False if trying again is useless."""
        donor = self._donor(slot)
        if donor is None:
            return False
        for _ in range(_FAILURES):
            need = (stop - taker.load) / taker.factor
            spare = (slot.load - self._mean) / slot.factor
            # On a slower broker a topic costs more than at its source.
            most = min(spare, (slot.load - taker.load) / taker.factor)
            place = donor.fitting(min(need, most), most) if most > 0 else None
            if place is None:
                return self._halve(donor, slot, taker, MoveReason.FILL)
            topic, cost = donor.at(place)
            if self._exhausted(slot, cost):
                return False
            donor.drop(place)
            needs = self._rules.requirements(topic)
            fits = needs.fits(taker.labels)
            if not fits:
                self._reasons[SkipReason.AFFINITY] += 1
            elif taker.load + taker.factor * cost >= slot.load:
                self._reasons[SkipReason.NO_BETTER_TARGET] += 1
            elif self._acceptable(topic, needs, slot, taker):
                self._move(topic, cost, slot, taker, MoveReason.FILL)
                return True
        self._reasons[SkipReason.NO_BETTER_TARGET] += 1
        return False

    def _halve(
        self,
        donor: SourceTopics,
        slot: ProjectedBroker,
        taker: ProjectedBroker,
        why: MoveReason = MoveReason.OVERLOAD,
    ) -> bool:
        """For topics too big to get a broker below the stop: move one if the pair gains enough."""
        gap = slot.load - taker.load
        best: tuple[float, int] | None = None
        for place in donor.nearest(gap / (slot.factor + taker.factor)):
            _, cost = donor.at(place)
            higher = max(slot.load - slot.factor * cost, taker.load + taker.factor * cost)
            gain = slot.load - higher
            # A heavy move must pay off, or topics would wander because of noise.
            worth = max(self._settings.min_gain * self._mean, 0.1 * slot.factor * cost)
            if gain >= worth and (best is None or gain > best[0]):
                best = (gain, place)
        if best is None:
            self._reasons[SkipReason.TOO_BIG] += 1
            return False
        topic, cost = donor.at(best[1])
        if self._exhausted(slot, cost):
            return False
        donor.drop(best[1])
        needs = self._rules.requirements(topic)
        if not needs.fits(taker.labels):
            self._reasons[SkipReason.AFFINITY] += 1
        elif self._acceptable(topic, needs, slot, taker):
            self._move(topic, cost, slot, taker, why)
        return True

    def _target(
        self, topic: str, cost: float, source: ProjectedBroker, stop: float
    ) -> ProjectedBroker | None:
        """The least loaded broker that may have ``topic`` and stays below ``stop`` with it."""
        needs = self._rules.requirements(topic)
        refused: Counter[SkipReason] = Counter()

        def accept(slot: ProjectedBroker) -> bool:
            if slot.headroom <= 0:
                refused[SkipReason.BROKER_MOVE_LIMIT] += 1
                return False
            if slot.load + slot.factor * cost > stop:
                refused[SkipReason.NO_BETTER_TARGET] += 1
                return False
            return self._acceptable(topic, needs, source, slot, refused)

        slot = self._takers.best(needs, accept)
        if slot is None:
            cause = refused.most_common(1)
            # No broker was considered: the rules allow none.
            self._reasons[cause[0][0] if cause else SkipReason.AFFINITY] += 1
        return slot

    def _acceptable(
        self,
        topic: str,
        needs: BrokerRequirements,
        source: ProjectedBroker,
        target: ProjectedBroker,
        refused: Counter[SkipReason] | None = None,
    ) -> bool:
        counted = self._reasons if refused is None else refused
        if (topic, target.id) in self._recent.left:
            counted[SkipReason.RETURNING] += 1
            return False
        if needs.soft and needs.prefers(source.labels) and not needs.prefers(target.labels):
            counted[SkipReason.AFFINITY] += 1
            return False
        if needs.group is not None:
            held = self._group(needs.group)
            if held[target.id] + 1 > held[source.id]:
                counted[SkipReason.APART] += 1
                return False
        return True

    def _exhausted(self, slot: ProjectedBroker, cost: float) -> bool:
        """Whether a limit forbids a move from ``slot``; counts the limit."""
        if self._moves_left <= 0:
            self._reasons[SkipReason.MOVE_LIMIT] += 1
        elif slot.headroom <= 0:
            self._reasons[SkipReason.BROKER_MOVE_LIMIT] += 1
        elif cost > self._cost_left and (self.moves or not self._fresh_window):
            # The first move of an interval is always allowed: in a small cluster, one topic may
            # exceed the share per interval.
            self._reasons[SkipReason.LOAD_LIMIT] += 1
        else:
            return False
        return True

    def _move(
        self,
        topic: str,
        cost: float,
        source: ProjectedBroker,
        target: ProjectedBroker,
        why: MoveReason,
    ) -> None:
        source.load -= source.factor * cost
        target.load += target.factor * cost
        source.headroom -= 1
        target.headroom -= 1
        self._moves_left -= 1
        self._cost_left -= cost
        self._got.add(target.id)
        group = self._rules.group(topic)
        if group is not None:
            held = self._group(group)
            held[source.id] -= 1
            held[target.id] += 1
        self.moves.append(Move(topic, source.id, target.id, cost, why))

    def _donor(self, slot: ProjectedBroker) -> SourceTopics | None:
        donor = self._donors.get(slot.id)
        if donor is None:
            if slot.id in self._recent.takers:
                self._reasons[SkipReason.BROKER_COOLDOWN] += 1
                return None
            settings = self._settings
            # So small that a whole interval of such moves would change nothing.
            least = settings.min_move * self._mean / (slot.factor * settings.moves_per_broker)
            broker = self._view.brokers[slot.id]
            donor = SourceTopics(broker, self._rules, self._staying, self._reasons, least=least)
            self._donors[slot.id] = donor
        return donor

    def _open(self, full: Collection[str]) -> dict[str, ProjectedBroker]:
        """Brokers that may receive topics."""
        found: dict[str, ProjectedBroker] = {}
        for slot in self._slots.values():
            if slot.id in full:
                continue
            if self._rules.closed(slot.id):
                self._reasons[SkipReason.BROKER_BLACKLISTED] += 1
            elif slot.id in self._recent.givers:
                self._reasons[SkipReason.BROKER_COOLDOWN] += 1
            else:
                found[slot.id] = slot
        return found

    def _group(self, group: str) -> Counter[str]:
        """How many topics of ``group`` each broker has."""
        if self._groups is None:
            self._groups = {}
            name: Callable[[str], str | None] = self._rules.group
            for broker in self._view.brokers.values():
                for topic in broker.topics:
                    found = name(topic)
                    if found is not None:
                        self._groups.setdefault(found, Counter())[broker.id] += 1
        return self._groups.setdefault(group, Counter())


_ANY = BrokerRequirements()


def _has_room(slot: ProjectedBroker) -> bool:
    return slot.headroom > 0
