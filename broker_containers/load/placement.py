"""Places topics that need a broker: new ones, those of a dead broker, those of a draining one.

The heaviest first, each on the broker that is least loaded including everything placed before, so
that many topics are spread. The relevant load is the higher of the current one and the forecast.
The same view and topics give the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from broker_containers.load.decision import Move, MoveReason, NewTopic, Placement, SkipReason
from broker_containers.load.least_loaded import LeastLoaded, ProjectedBroker
from broker_containers.load.report import BYTES_A_RECORD
from broker_containers.load.rules import BrokerRequirements, PlacementRules
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import LEAST_COST, BrokerLoad, ClusterView
from sulina.errors import NotFound, Refused
from sulina.metadata.keys.members import BrokerMode


def place(
    view: ClusterView,
    topics: Iterable[NewTopic],
    settings: BalanceSettings,
    *,
    exclude: Collection[str] = (),
) -> Placement:
    """Choose a broker for each of ``topics``; brokers in ``exclude`` get none.

    Draining and blacklisted brokers get none either. Brokers with old reports are used only if no
    other broker is left, as is, for a topic with a soft rule, a broker that the rule advises
    against.
    """
    rules = settings.rule_book()
    wanted = {
        topic.name: (cost_of(view, topic), rules.requirements(topic.name)) for topic in topics
    }
    open_brokers = [
        one
        for one in view.brokers.values()
        if one.state is BrokerMode.ACTIVE and one.id not in exclude and not rules.closed(one.id)
    ]
    trusted = [one for one in open_brokers if one.trust >= settings.min_trust]
    chooser = _Chooser(trusted, view, rules, wanted)
    reserve = (
        _Chooser(open_brokers, view, rules, wanted) if len(trusted) < len(open_brokers) else None
    )
    assigned: dict[str, str] = {}
    unplaced: dict[str, SkipReason] = {}
    for name, (cost, needs) in sorted(wanted.items(), key=lambda item: (-item[1][0], item[0])):
        broker = chooser.choose(cost, needs)
        if broker is None and reserve is not None:
            broker = reserve.choose(cost, needs)
        if broker is not None:
            assigned[name] = broker
        else:
            unplaced[name] = SkipReason.AFFINITY if open_brokers else SkipReason.NO_BROKER
    return Placement(assigned, unplaced)


def failover(view: ClusterView, dead: str, settings: BalanceSettings) -> Placement:
    """New brokers for all topics of a dead one. Raises ``NotFound`` if it is not in the view."""
    return place(view, _topics_of(_broker(view, dead)), settings, exclude={dead})


def drain(
    view: ClusterView, broker: str, settings: BalanceSettings, *, limit: int | None = None
) -> tuple[tuple[Move, ...], Placement]:
    """Moves that empty ``broker``, the heaviest topics first, at most ``limit`` of them.

    Also returns the placement, with the topics that fit nowhere. Call it again with a new view
    until no topic is left. Raises ``NotFound`` if the broker is not in the view.
    """
    source = _broker(view, broker)
    leaving = sorted(_topics_of(source), key=lambda one: (-(one.cost or 0.0), one.name))
    placement = place(view, leaving[:limit], settings, exclude={broker})
    moves = tuple(
        Move(
            topic.name, broker, placement.assigned[topic.name], topic.cost or 0.0, MoveReason.DRAIN
        )
        for topic in leaving[:limit]
        if topic.name in placement.assigned
    )
    return moves, placement


def manual_move(
    view: ClusterView, topic: str, target: str, settings: BalanceSettings, *, force: bool = False
) -> Move:
    """A move on request. Limits and cooldowns do not apply.

    Raises ``NotFound`` for an unknown topic or broker, ``Refused`` if the target already has the
    topic or, unless ``force`` is set, is draining, blacklisted or against a rule.
    """
    source = view.owner(topic)
    if source is None:
        raise NotFound(f"{topic} has no broker: it is placed when it is first used")
    broker = _broker(view, target)
    if source == target:
        raise Refused(f"{topic} is already on {target}: name another broker")
    rules = settings.rule_book()
    if not force:
        remedy = "choose another broker, or force the move"
        if broker.state is not BrokerMode.ACTIVE:
            raise Refused(f"{target} is {broker.state}: activate it first, or force the move")
        if rules.closed(target):
            raise Refused(f"{target} is blacklisted: {remedy}")
        if not rules.requirements(topic).fits(broker.labels):
            raise Refused(f"a rule does not allow {topic} on {target}: {remedy}")
    cost = dict(zip(view.brokers[source].topics, view.brokers[source].costs, strict=True))[topic]
    return Move(topic, source, target, cost, MoveReason.MANUAL)


def cost_of(view: ClusterView, topic: NewTopic) -> float:
    """The expected cost of ``topic``: measured, or from its expected load, or typical."""
    if topic.cost is not None:
        return max(topic.cost, LEAST_COST)
    if topic.records is not None and view.cost_of_work > 0:
        work = topic.records + topic.bytes / BYTES_A_RECORD
        return max(work * view.cost_of_work, LEAST_COST)
    return view.typical_cost


class _Chooser:
    """Assigns brokers and keeps track of what it assigned."""

    def __init__(
        self,
        brokers: Iterable[BrokerLoad],
        view: ClusterView,
        rules: PlacementRules,
        wanted: dict[str, tuple[float, BrokerRequirements]],
    ) -> None:
        slots = {
            one.id: ProjectedBroker(one.id, _rough(one, view.quiet), one.factor, one.labels)
            for one in brokers
        }
        self._least = LeastLoaded(slots)
        # How many topics of a group each broker has, for the groups that are needed.
        self._groups: dict[str, Counter[str]] = {
            needs.group: Counter() for _, needs in wanted.values() if needs.group is not None
        }
        if self._groups:
            for broker in view.brokers.values():
                for topic in broker.topics:
                    group = rules.group(topic)
                    # Topics that are being placed leave their current broker.
                    if group in self._groups and topic not in wanted:
                        self._groups[group][broker.id] += 1

    def choose(self, cost: float, needs: BrokerRequirements) -> str | None:
        """The broker for a topic that costs ``cost``; None if the rules allow none."""
        slot = self._find(needs, preferred=True) if needs.soft else None
        slot = slot or self._find(needs, preferred=False)
        if slot is None:
            return None
        slot.load += slot.factor * cost
        if needs.group is not None:
            self._groups[needs.group][slot.id] += 1
        return slot.id

    def _find(self, needs: BrokerRequirements, *, preferred: bool) -> ProjectedBroker | None:
        if needs.group is None:
            return self._least.best(needs, _anyone, preferred=preferred)
        counts = self._groups[needs.group]
        fewest = 0
        if len(counts) >= self._least.members(needs, preferred=preferred):
            fits = needs.prefers if preferred else needs.fits
            slots = self._least.slots.values()
            fewest = min((counts[one.id] for one in slots if fits(one.labels)), default=0)
        return self._least.best(
            needs,
            lambda slot: counts[slot.id] <= fewest,
            preferred=preferred,
            tries=len(self._least.slots),
        )


def _rough(broker: BrokerLoad, grain: float) -> float:
    """The load without noise: brokers that are about equal are ordered by their topics.

    Otherwise all new topics of an idle cluster would go to the same broker.
    """
    load = broker.planned_load
    if grain > 0:
        load = round(load / grain) * grain
    return load + LEAST_COST * len(broker.topics)


def _anyone(_: ProjectedBroker) -> bool:
    return True


def _broker(view: ClusterView, name: str) -> BrokerLoad:
    broker = view.brokers.get(name)
    if broker is None:
        raise NotFound(f"no broker {name}: `sulina broker list` shows all brokers")
    return broker


def _topics_of(broker: BrokerLoad) -> list[NewTopic]:
    return [
        NewTopic(name, cost=cost) for name, cost in zip(broker.topics, broker.costs, strict=True)
    ]
