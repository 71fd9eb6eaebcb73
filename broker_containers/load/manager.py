"""The load manager: its memory and its decisions, for the leader.

It does no I/O and has no clock: reports, assignments and the time are arguments. The leader passes
reports to ``observe``, asks for a ``view``, and acts on ``place``, ``plan``, ``failover`` and
``drain``. Other brokers do not use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from broker_containers.load.assess import build_view, machine_factors
from broker_containers.load.decision import Move, NewTopic, Placement, RebalancePlan
from broker_containers.load.history import LoadHistory
from broker_containers.load.move_log import MoveLog
from broker_containers.load.placement import drain, failover, manual_move, place
from broker_containers.load.ranking import Measured, ranking_of
from broker_containers.load.rebalance import Rebalancer
from broker_containers.load.report import LoadReport
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import BrokerInfo, ClusterView

CLOCK_SKEW_SECONDS = 60.0
"""Tolerated difference between clocks before a report's own time makes it old."""
SPARE_TOPICS = 10_000
"""Topics remembered beyond twice the existing ones."""


class LoadManager:
    """Observes reports and decides. Used by one task at a time; never waits."""

    def __init__(self, settings: BalanceSettings, *, log: MoveLog | None = None) -> None:
        self._settings = settings
        self._ranking = ranking_of(settings)
        self._rebalancer = Rebalancer(settings)
        self.history = LoadHistory(settings.smoothing_seconds)
        self.log = log or MoveLog()
        self._factors: dict[str, float] = {}
        """How much more the same work costs on each broker, as of the last view."""
        self._pending: dict[str, tuple[LoadReport, Measured, float]] = {}
        """The last reports of brokers without a factor yet, and when they arrived."""

    @property
    def settings(self) -> BalanceSettings:
        return self._settings

    def change(self, settings: BalanceSettings) -> None:
        """Change the settings. Another ranking or other weights start a new history."""
        old, self._settings = self._settings, settings
        self._ranking = ranking_of(settings)
        self._rebalancer = Rebalancer(settings)
        units = (settings.ranking, settings.weights, settings.full, settings.smoothing_seconds)
        if units != (old.ranking, old.weights, old.full, old.smoothing_seconds):
            self.history = LoadHistory(settings.smoothing_seconds)
            self._factors, self._pending = {}, {}

    def observe(self, report: LoadReport, *, now: float, wall_us: int) -> bool:
        """Process a report received at ``now``; ``wall_us`` is the leader's time of day.

        False if it is the last one again: rereading the store must not make a silent broker look
        alive. A report found by a new leader counts from when it was written, as far as clocks can
        be compared.
        """
        past = self.history.brokers.get(report.broker)
        waiting = self._pending.get(report.broker)
        # Compared for equality, not order: a broker's clock may have been set back.
        last = waiting[0].wall_us if waiting else past.wall_us if past else None
        if report.wall_us == last:
            return False
        age = (wall_us - report.wall_us) / 1e6
        received = now - age if past is None and age > CLOCK_SKEW_SECONDS else now
        measured = self._ranking.measure(report)
        factor = self._factors.get(report.broker)
        if factor is None:
            # A new machine's speed is known only in comparison with all others: at the next view.
            self._pending[report.broker] = (report, measured, received)
        else:
            share = self.history.observe(report, measured, received=received)
            self.history.learn(report, measured, share=share, factor=factor)
        return True

    def view(
        self,
        brokers: Sequence[BrokerInfo],
        assignment: Mapping[str, Sequence[str]],
        *,
        now: float,
        wall_us: int,
    ) -> ClusterView:
        """The cluster now: registered brokers, with the topics assigned to each."""
        self._learn()
        assigned = sum(map(len, assignment.values()))
        if len(self.history.costs) > 2 * assigned + SPARE_TOPICS:
            self.history.keep_topics({topic for topics in assignment.values() for topic in topics})
        return build_view(
            brokers,
            assignment,
            self.history,
            self._ranking,
            self._settings,
            now=now,
            wall_us=wall_us,
        )

    def place(
        self, view: ClusterView, topics: Iterable[NewTopic], *, exclude: Collection[str] = ()
    ) -> Placement:
        """Brokers for topics that have none; see ``placement.place``."""
        costs = self.history.costs
        known = [
            NewTopic(one.name, one.records, one.bytes, costs.get(one.name))
            if one.cost is None and one.records is None
            else one
            for one in topics
        ]
        return place(view, known, self._settings, exclude=exclude)

    def failover(self, view: ClusterView, dead: str) -> Placement:
        """New brokers for a dead one's topics; see ``placement.failover``."""
        return failover(view, dead, self._settings)

    def drain(
        self, view: ClusterView, broker: str, *, limit: int | None = None
    ) -> tuple[tuple[Move, ...], Placement]:
        """Moves that empty a broker; see ``placement.drain``."""
        return drain(view, broker, self._settings, limit=limit)

    def manual_move(
        self, view: ClusterView, topic: str, target: str, *, force: bool = False
    ) -> Move:
        """A move on request; see ``placement.manual_move``."""
        return manual_move(view, topic, target, self._settings, force=force)

    def plan(self, view: ClusterView, *, now: float) -> RebalancePlan:
        """What rebalancing would do now. Changes nothing; ``commit`` what is carried out."""
        return self._rebalancer.plan(view, self.log, now)

    def commit(self, plan: RebalancePlan, *, now: float) -> None:
        """Record that a plan is carried out, also an empty one. A dry run is ignored."""
        if not plan.dry_run:
            self.log.commit(plan, now)
        self._prune(now)

    def moved(self, moves: Iterable[Move], *, now: float) -> None:
        """Record other moves: drains and manual ones."""
        self.log.record(moves, now)

    def forget_broker(self, broker: str) -> None:
        """Drop a broker that was removed for good."""
        self.history.forget_broker(broker)
        self._pending.pop(broker, None)
        self._factors.pop(broker, None)

    def _learn(self) -> None:
        """Compare all machines, then process the reports that waited for it."""
        history = self.history
        pending, self._pending = self._pending, {}
        shares = {
            broker: history.observe(report, measured, received=received)
            for broker, (report, measured, received) in pending.items()
        }
        self._factors = machine_factors(history.brokers, self._ranking)
        for broker, (report, measured, _) in pending.items():
            factor = self._factors[broker]
            history.learn(report, measured, share=shares[broker], factor=factor)

    def _prune(self, now: float) -> None:
        settings = self._settings
        longest = max(
            settings.return_seconds,
            settings.topic_cooldown_seconds,
            settings.broker_cooldown_seconds,
            settings.interval_seconds,
        )
        self.log.forget_before(now - longest)
