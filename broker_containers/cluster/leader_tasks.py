"""What the leader does in each round: decide where topics should be, and move them there.

* **Evaluation**: topics without an owner, topics of dead or draining brokers and, periodically, the
  balance of the whole cluster go to the load manager, which decides where they should be.
* **Reconciliation**: a served topic is first released by its owner and only then served by the next
  one: the leader marks the move and the owner completes it. The leader reassigns a topic itself
  only if its owner is dead or does not respond.

Every write is guarded by the leader's term and by the revisions that were read, so a leader that
was replaced, or saw old data, changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from broker_containers.cluster.election import Election
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.decision import (
    Move,
    NewTopic,
    Placement,
    RebalancePlan,
    SkipReason,
)
from broker_containers.load.manager import LoadManager
from broker_containers.load.move_history import MoveHistory
from broker_containers.load.move_log import MoveLog
from broker_containers.load.view import BrokerInfo, BrokerLoad, ClusterView, balance_of
from sulina.errors import NotFound, Refused, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.check import MAX_TXN_OPS
from sulina.metadata.keys import assignments, load_balance, topics
from sulina.metadata.keys.assignments import OPS_PER_CHANGE, Change, Owner
from sulina.metadata.keys.members import BrokerMode
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_GROUP = MAX_TXN_OPS // OPS_PER_CHANGE
_AT_ONCE = 4
"""Concurrent transactions."""
_BURST_SECONDS = 0.02
"""Changes come in bursts: seconds that a round waits for the rest of one."""
_TAKING_OVER = 0.005
"""Minimum cost of a topic that is taken over: opening even idle ones is work, and all topics of a
dead broker must not go to the same target."""


class LeaderTasks:
    """Run it in a task on every broker; it works while its broker leads."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        election: Election,
        settings: ClusterSettings,
        describe: Callable[[TopicName], TopicRecord | None] = lambda _: None,
    ) -> None:
        """``describe`` returns a topic's record, if known, for its expected load."""
        self._describe = describe
        self._store = store
        self._clock = clock
        self._tables = tables
        self._election = election
        self.settings = settings
        self.manager = LoadManager(settings.balance)
        self.plan: RebalancePlan | None = None
        """The most recent plan."""
        self.reasons: Counter[SkipReason] = Counter()
        """Why nothing was done, counted since this broker became the leader."""
        self.moves: Counter[str] = Counter()
        """Topics moved to another owner, by cause."""
        self.history = MoveHistory()
        self._moving: dict[str, float] = {}
        self._next_plan = 0.0
        self._moves_posted = 0
        self._history_posted = 0

    async def run(self) -> None:
        """Lead while this broker is the leader. Ends when cancelled."""
        while True:
            term = await self._election.led()
            self._moving.clear()
            self.reasons.clear()
            self._next_plan = self._clock.now() + self.settings.rebalance_seconds
            # Everything that the previous leader wrote must be seen first.
            await self._tables.prefix_cache.reached(term)
            await self._take_up()
            while self._election.term == term:
                began = self._clock.now()
                news = self._tables.prefix_cache.news
                try:
                    await self._round()
                    await self._election.took(self._clock.now() - began)
                except (Retriable, UnknownOutcome) as error:
                    _log.warning("a round of the leader was interrupted: %s", error)
                except Refused:
                    _log.exception("a round of the leader failed")
                await self._pause(news)

    async def _take_up(self) -> None:
        """Continue with the cooldowns and the history of the previous leader."""
        try:
            found = await load_balance.last_moves(self._store)
            if found is not None:
                self.manager.log = MoveLog.from_bytes(found, now=self._clock.now())
        except SulinaError as error:
            _log.warning("cannot read the previous leader's moves: %s", error)
        try:
            told = await load_balance.last_history(self._store)
            if told is not None:
                self.history = MoveHistory.from_bytes(told)
        except SulinaError as error:
            _log.warning("cannot read the previous leader's history of moves: %s", error)
        self._moves_posted = sum(self.moves.values())
        self._history_posted = self.history.news

    async def _pause(self, news: asyncio.Event) -> None:
        try:
            await within(self._clock, self.settings.evaluate_seconds, news.wait())
        except TimeoutError:
            return
        await self._clock.sleep(_BURST_SECONDS)

    # ---- one round ----

    async def _round(self) -> None:
        now, wall = self._clock.now(), self._clock.wall_us()
        for report in list(self._tables.loads.items.values()):
            self.manager.observe(report, now=now, wall_us=wall)
        await self._give_owners()
        await self._finish_moves(now)
        await self._empty_brokers()
        if now >= self._next_plan:
            self._next_plan = now + self.settings.rebalance_seconds
            await self.rebalance(dry_run=False)
            await self._post()

    def summary(self) -> dict[str, Any]:
        """Brokers by load, how even it is, what was moved, and the counted reasons for not moving.

        For people, tools and ``/cluster/load_balance``.
        """
        brokers, settings = self.view().brokers.values(), self.manager.settings
        balance = balance_of(brokers)
        ordered = sorted(brokers, key=lambda one: (-one.load, one.id))
        return {
            "ranking": settings.ranking.value,
            "high": settings.high_start,
            "low": settings.low_start,
            "balance": {**asdict(balance), "max_over_mean": balance.max_over_mean},
            "brokers": [_ranked(one) for one in ordered],
            "reasons": {reason.value: count for reason, count in sorted(self.reasons.items())},
            "moves": dict(self.moves),
        }

    async def _post(self) -> None:
        """Store the summary for the other brokers."""
        term = self._election.term
        told = {"term": term, "wall_us": self._clock.wall_us(), **self.summary()}
        moves, made = None, sum(self.moves.values())
        if made != self._moves_posted:
            moves = self.manager.log.to_bytes(now=self._clock.now())
        history, news = None, self.history.news
        if news != self._history_posted:
            history = self.history.to_bytes()
        if await load_balance.post(self._store, term, json.dumps(told).encode(), moves, history):
            self._moves_posted, self._history_posted = made, news

    def view(self) -> ClusterView:
        """The live brokers, with their topics and loads."""
        tables = self._tables
        carried: dict[str, list[str]] = defaultdict(list)
        for rest, owner in tables.owners.items.items():
            # A moving topic counts at its target.
            carried[owner.to or owner.broker].append(str(assignments.topic_of(rest)))
        infos = [
            BrokerInfo(
                broker,
                frozenset(found.labels),
                tables.mode(broker),
            )
            for broker, found in tables.living().items()
        ]
        return self.manager.view(
            infos, carried, now=self._clock.now(), wall_us=self._clock.wall_us()
        )

    async def _give_owners(self) -> None:
        """Assign owners to topics that have none, or a dead one."""
        tables = self._tables
        living = tables.living()
        orphans: dict[str, Owner | None] = {
            rest: owner for rest, owner in tables.owners.items.items() if owner.broker not in living
        }
        for rest in tables.unassigned.items:
            if rest not in tables.owners.items:
                orphans[rest] = None
        if not orphans:
            return
        view = self.view()
        new = [
            self._new(assignments.topic_of(rest))
            if before is None
            else self._orphan(assignments.topic_of(rest), view)
            for rest, before in orphans.items()
        ]
        placement = self.manager.place(view, new)
        self.reasons.update(placement.unplaced.values())
        changes = []
        for rest, before in orphans.items():
            topic = assignments.topic_of(rest)
            target = placement.assigned.get(str(topic))
            if target is not None:
                # Nothing was awaited since the records were read.
                revision = tables.owners.revisions.get(rest, 0)
                changes.append(self._change(topic, before, revision, target))
        await self._commit(changes, "failover" if any(orphans.values()) else "new")

    def _new(self, topic: TopicName) -> NewTopic:
        """A topic to place, with its expected load."""
        found = self._describe(topic)
        if found is None or not (found.expected_records or found.expected_bytes):
            return NewTopic(str(topic))
        return NewTopic(str(topic), float(found.expected_records), float(found.expected_bytes))

    def _orphan(self, topic: TopicName, view: ClusterView) -> NewTopic:
        """A topic of a dead broker, to place."""
        known = self.manager.history.costs.get(str(topic), view.typical_cost)
        return replace(self._new(topic), cost=max(known, _TAKING_OVER))

    async def _finish_moves(self, now: float) -> None:
        """Reassign topics whose owners do not hand them over; cancel moves to dead targets."""
        tables = self._tables
        moving = [rest for rest, owner in tables.owners.items.items() if owner.to]
        self._moving = {rest: self._moving.get(rest, now) for rest in moving}
        late: list[Change] = []
        for rest in moving:
            topic = assignments.topic_of(rest)
            owner, revision = tables.owner_at(topic)
            if owner is None or not owner.to:
                continue  # done in the meantime
            if tables.broker(owner.to) is None:
                if await self._mark(topic, replace(owner, to=""), revision):
                    self._tell([(topic, owner.broker, owner.to)], "cancelled")
            elif now - self._moving[rest] > self.settings.move_seconds:
                _log.warning("%s does not hand over %s: reassigning it", owner.broker, topic)
                late.append(self._change(topic, owner, revision, owner.to))
        await self._commit(late, "forced")

    async def _empty_brokers(self) -> None:
        draining = [b for b in self._tables.living() if self._tables.mode(b) is BrokerMode.DRAINING]
        room = self.settings.moves_at_once - len(self._moving)
        for broker in draining:
            waiting = any(not owner.to for _, owner, _ in self._tables.topics_of(broker))
            if waiting and room > 0:
                moves, placement = self.manager.drain(self.view(), broker, limit=room)
                self.reasons.update(placement.unplaced.values())
                room -= await self._start(moves)

    async def rebalance(self, *, dry_run: bool) -> RebalancePlan:
        """Make a plan; unless ``dry_run``, start its moves. Raises unless this broker leads."""
        self._election.guard()
        now = self._clock.now()
        plan = self.manager.plan(self.view(), now=now)
        self.plan = plan
        if not dry_run:
            self.reasons.update(plan.reasons)
            moved = 0
            if not plan.dry_run:
                self.manager.commit(plan, now=now)
                moved = await self._start(plan.moves)
            reasons = {reason.value: count for reason, count in plan.reasons.items()}
            if plan.dry_run and plan.moves:
                reasons["dry_run"] = len(plan.moves)
            self.history.planned(moved, reasons, self._clock.wall_us())
        return plan

    async def move(self, topic: TopicName, target: str | None) -> Move:
        """Move a topic on request; without ``target``, to the best broker."""
        self._election.guard()
        view = self.view()
        owner = self._tables.owner(topic)
        if owner is None:
            raise NotFound(f"{topic} has no owner yet: it is placed when it is first used")
        if target is None:
            chosen: Placement = self.manager.place(view, [self._new(topic)], exclude={owner.broker})
            target = chosen.assigned.get(str(topic))
            if target is None:
                raise Refused(f"no other broker can take {topic}")
        move = self.manager.manual_move(view, str(topic), target)
        if not await self._start([move]):
            raise Retriable(f"{topic} was moved concurrently: check its owner and try again")
        return move

    # ---- writing ----

    def _change(self, topic: TopicName, before: Owner | None, revision: int, target: str) -> Change:
        epoch = 1 if before is None else before.epoch + 1
        after = Owner(target, epoch, since_us=self._clock.wall_us())
        return Change(topic, before, revision, after)

    async def _start(self, moves: Sequence[Move]) -> int:
        """Mark moves for their owners to complete; returns how many."""
        started = []
        by_cause: dict[str, list[tuple[TopicName, str, str]]] = defaultdict(list)
        for move in moves:
            topic = TopicName.parse(move.topic)
            owner, revision = self._tables.owner_at(topic)
            if owner is None or owner.broker != move.source or owner.to:
                continue
            if await self._mark(topic, replace(owner, to=move.target), revision):
                started.append(move)
                self.moves[move.why.value] += 1
                by_cause[move.why.value].append((topic, move.source, move.target))
        self.manager.moved(started, now=self._clock.now())
        for why, told in by_cause.items():
            self._tell(told, why)
        return len(started)

    def _tell(self, moves: Iterable[tuple[TopicName, str, str]], why: str) -> None:
        """Add to the history that topics move from one broker to another."""
        costs = self.manager.history.costs
        self.history.moved(
            (
                (str(topic), source, target, costs.get(str(topic), 0.0))
                for topic, source, target in moves
            ),
            why,
            self._clock.wall_us(),
        )

    async def _mark(self, topic: TopicName, marked: Owner, revision: int) -> bool:
        guard = self._election.guard()
        done = await assignments.mark_move(self._store, [guard], topic, revision, marked)
        if done is not None:
            await self._tables.prefix_cache.reached(done)
        return done is not None

    async def _commit(self, changes: Sequence[Change], why: str) -> None:
        if not changes:
            return
        groups = [changes[start : start + _GROUP] for start in range(0, len(changes), _GROUP)]
        last = 0
        for start in range(0, len(groups), _AT_ONCE):
            done = await asyncio.gather(*map(self._commit_group, groups[start : start + _AT_ONCE]))
            last = max(last, *done)
        # The next round must see these changes, so that it does not repeat them.
        await self._tables.prefix_cache.reached(last)
        self.moves[why] += len(changes)
        self._tell(
            [
                (change.topic, change.before.broker, change.after.broker)
                for change in changes
                if change.before is not None
            ],
            why,
        )
        _log.info("%d topics have new owners (%s)", len(changes), why)

    async def _commit_group(self, group: Sequence[Change]) -> int:
        """The revision of the last change; 0 if nothing changed."""
        revision = await assignments.change_all(self._store, [self._election.guard()], group)
        if revision is None:
            # One record changed meanwhile: it must not hold up the others.
            return await self._commit_singly(group)
        return revision

    async def _commit_singly(self, changes: Iterable[Change]) -> int:
        last = 0
        for change in changes:
            revision = await assignments.change_all(self._store, [self._election.guard()], [change])
            if revision is not None:
                last = revision
            elif await topics.get(self._store, change.topic) is None:
                await assignments.forget(self._store, change.topic)
        return last


def _ranked(broker: BrokerLoad) -> dict[str, Any]:
    return {
        "broker": broker.id,
        "load": broker.load,
        "topics": len(broker.topics),
        "state": broker.state.value,
        "trust": broker.trust,
    }
