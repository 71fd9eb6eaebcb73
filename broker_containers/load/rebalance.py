"""Rebalancing: which topics move where, and why others do not.

A broker gives topics away when its load is above ``high_start`` times the mean for long enough,
until it is below ``high_stop``; it receives topics when it is below ``low_start``, until
``low_stop``. Brokers in between are left alone, and only the excess above the stop moves, not
everything above the mean. A move that would only shift a hot spot is not made. Planning changes
nothing: it returns a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from broker_containers.load.decision import Move, RebalancePlan, SkipReason
from broker_containers.load.move_log import MoveLog, RecentMoves
from broker_containers.load.planning import PlanningSession
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import (
    Balance,
    BrokerLoad,
    ClusterView,
    balance_of,
)
from sulina.metadata.keys.members import BrokerMode


class Rebalancer:
    """Makes plans. It has settings and no state: the same input gives the same plan."""

    def __init__(self, settings: BalanceSettings) -> None:
        self._settings = settings
        self._rules = settings.rule_book()

    def plan(self, view: ClusterView, log: MoveLog, now: float) -> RebalancePlan:
        """What to move at ``now`` (the log's clock).

        Carry out the moves and call ``log.commit(plan, now)``, even if there are none: the log
        records since when brokers are out of balance. Do not commit a dry run.
        """
        settings = self._settings
        reasons: Counter[SkipReason] = Counter()
        present = [one for one in view.brokers.values() if one.state is BrokerMode.ACTIVE]
        reasons[SkipReason.DRAINING] = len(view.brokers) - len(present)
        believed = [one for one in present if one.trust >= settings.min_trust]
        reasons[SkipReason.STALE_REPORT] = len(present) - len(believed)
        before = balance_of(believed)

        def idle(reason: SkipReason, outside: Mapping[str, float]) -> RebalancePlan:
            reasons[reason] += 1
            return _finished(reasons, before, outside, dry_run=settings.dry_run)

        if not settings.enabled:
            return idle(SkipReason.DISABLED, {})
        if len(present) < 2:
            return idle(SkipReason.TOO_FEW_BROKERS, {})
        if 2 * len(believed) <= len(present):
            return idle(SkipReason.BLIND, log.outside)
        outside = self._outside(believed, before, log, now)
        due = {one for one, since in outside.items() if now - since >= settings.confirm_seconds}
        full = [one for one in due if view.brokers[one].load > before.mean]
        session = PlanningSession(
            view,
            believed,
            settings,
            self._rules,
            self._recent(log, now),
            reasons,
            mean=before.mean,
            full=full,
        )
        # Rules take precedence over balance and do not wait for an imbalance.
        session.repair()
        if before.highest <= view.quiet:
            reasons[SkipReason.QUIET] += 1
            outside = {}
        elif not outside:
            reasons[SkipReason.BALANCED] += 1
        else:
            reasons[SkipReason.CONFIRMING] = len(outside) - len(due)
            session.shed(full, before.mean * settings.high_stop)
            session.fill(due.difference(full), before.mean * settings.low_stop)
        return _finished(
            reasons,
            before,
            outside,
            dry_run=settings.dry_run,
            moves=session.moves,
            after=session.balance_after(before),
            total_cost=session.total_cost,
        )

    def _outside(
        self, brokers: Sequence[BrokerLoad], balance: Balance, log: MoveLog, now: float
    ) -> dict[str, float]:
        """Brokers that are out of balance, and since when.

        Hysteresis is per broker: one that a single huge topic always keeps above the limit does
        not affect the others.
        """
        settings = self._settings
        mean = balance.mean
        found: dict[str, float] = {}
        for one in brokers:
            since = log.outside.get(one.id)
            acting = since is not None and now - since >= settings.confirm_seconds
            high = settings.high_stop if acting else settings.high_start
            low = settings.low_stop if acting else settings.low_start
            if not mean * low <= one.load <= mean * high:
                found[one.id] = now if since is None else since
        return found

    def _recent(self, log: MoveLog, now: float) -> RecentMoves:
        settings = self._settings
        return RecentMoves.of(
            log,
            now,
            topic_cooldown=settings.topic_cooldown_seconds,
            return_time=settings.return_seconds,
            broker_cooldown=settings.broker_cooldown_seconds,
            interval=settings.interval_seconds,
        )


def _finished(
    reasons: Counter[SkipReason],
    before: Balance,
    outside: Mapping[str, float],
    *,
    dry_run: bool,
    moves: Sequence[Move] = (),
    after: Balance | None = None,
    total_cost: float = 0.0,
) -> RebalancePlan:
    return RebalancePlan(
        moves=tuple(moves),
        reasons={reason: count for reason, count in reasons.items() if count},
        before=before,
        after=after or before,
        moved_share=sum(move.cost for move in moves) / total_cost if total_cost > 0 else 0.0,
        outside=dict(outside),
        dry_run=dry_run,
    )
