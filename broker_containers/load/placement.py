"""Where topics go that need a broker: new ones, those of a dead broker, those of a draining one.

The heaviest first, each to the broker that is least loaded with everything handed out before it,
so that many topics at once spread. The load that counts is the higher of the present one and the
forecast. The same view and topics give the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from broker_containers.load.decision import Move, MoveReason, NewTopic, Placement, SkipReason
from broker_containers.load.least_loaded import LeastLoaded, TargetBroker
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

    Draining and black-listed brokers get none either. Brokers whose reports are old get some only
    if no other broker is left, and so does, for topics with a soft rule, a broker against it.
    """
    rules = settings.rule_book()
    wanted = {topic.name: (cost_of(view, topic), rules.wish(topic.name)) for topic in topics}
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
    for name, (cost, wish) in sorted(wanted.items(), key=lambda item: (-item[1][0], item[0])):
        broker = chooser.choose(cost, wish)
        if broker is None and reserve is not None:
            broker = reserve.choose(cost, wish)
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

    Also the placement, which says what fits nowhere else. Call again with a new view until no
    topic is left. Raises ``NotFound`` if the broker is not in the view.
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
    """A move that a person asks for. Limits and cooldowns do not hold it up.

    Raises ``NotFound`` for an unknown topic or broker, ``Refused`` if the target is draining,
    black-listed or against a rule and ``force`` is not set, or has the topic already.
    """
    source = view.owner(topic)
    if source is None:
        raise NotFound(f"no broker has {topic}: create it, and it is placed by itself")
    broker = _broker(view, target)
    if source == target:
        raise Refused(f"{topic} is on {target} already: name another broker")
    rules = settings.rule_book()
    if not force:
        remedy = "choose another broker, or force the move"
        if broker.state is not BrokerMode.ACTIVE:
            raise Refused(f"{target} is {broker.state}: activate it first, or force the move")
        if rules.closed(target):
            raise Refused(f"{target} is black-listed: {remedy}")
        if not rules.wish(topic).fits(broker.labels):
            raise Refused(f"a rule keeps {topic} away from {target}: {remedy}")
    cost = dict(zip(view.brokers[source].topics, view.brokers[source].costs, strict=True))[topic]
    return Move(topic, source, target, cost, MoveReason.MANUAL)


def cost_of(view: ClusterView, topic: NewTopic) -> float:
    """What ``topic`` is expected to cost: measured, or by its hint, or as a typical one."""
    if topic.cost is not None:
        return max(topic.cost, LEAST_COST)
    if topic.records is not None and view.cost_of_work > 0:
        work = topic.records + topic.bytes / BYTES_A_RECORD
        return max(work * view.cost_of_work, LEAST_COST)
    return view.typical_cost


class _Chooser:
    """Hands out brokers and remembers what it has handed out."""

    def __init__(
        self,
        brokers: Iterable[BrokerLoad],
        view: ClusterView,
        rules: PlacementRules,
        wanted: dict[str, tuple[float, BrokerRequirements]],
    ) -> None:
        slots = {
            one.id: TargetBroker(one.id, _rough(one, view.quiet), one.factor, one.labels)
            for one in brokers
        }
        self._least = LeastLoaded(slots)
        # How many topics of a group each broker has; groups that are not asked for do not matter.
        self._groups: dict[str, Counter[str]] = {
            wish.group: Counter() for _, wish in wanted.values() if wish.group is not None
        }
        if self._groups:
            for broker in view.brokers.values():
                for topic in broker.topics:
                    group = rules.group(topic)
                    # Topics that are being placed leave the broker they are on.
                    if group in self._groups and topic not in wanted:
                        self._groups[group][broker.id] += 1

    def choose(self, cost: float, wish: BrokerRequirements) -> str | None:
        """The broker for a topic that costs ``cost``; None if the rules leave nobody."""
        slot = self._find(wish, preferred=True) if wish.soft else None
        slot = slot or self._find(wish, preferred=False)
        if slot is None:
            return None
        slot.load += slot.factor * cost
        if wish.group is not None:
            self._groups[wish.group][slot.id] += 1
        return slot.id

    def _find(self, wish: BrokerRequirements, *, preferred: bool) -> TargetBroker | None:
        if wish.group is None:
            return self._least.best(wish, _anyone, preferred=preferred)
        counts = self._groups[wish.group]
        fewest = 0
        if len(counts) >= self._least.members(wish, preferred=preferred):
            fits = wish.prefers if preferred else wish.fits
            slots = self._least.slots.values()
            fewest = min((counts[one.id] for one in slots if fits(one.labels)), default=0)
        return self._least.best(
            wish,
            lambda slot: counts[slot.id] <= fewest,
            preferred=preferred,
            tries=len(self._least.slots),
        )


def _rough(broker: BrokerLoad, grain: float) -> float:
    """The load without its noise: brokers that are about equal are told apart by their topics.

    Otherwise all new topics of an idle cluster would go to whichever broker idles best.
    """
    load = broker.planned_load
    if grain > 0:
        load = round(load / grain) * grain
    return load + LEAST_COST * len(broker.topics)


def _anyone(_: TargetBroker) -> bool:
    return True


def _broker(view: ClusterView, name: str) -> BrokerLoad:
    broker = view.brokers.get(name)
    if broker is None:
        raise NotFound(f"there is no broker {name}: `sulina broker list` names all")
    return broker


def _topics_of(broker: BrokerLoad) -> list[NewTopic]:
    return [
        NewTopic(name, cost=cost) for name, cost in zip(broker.topics, broker.costs, strict=True)
    ]
