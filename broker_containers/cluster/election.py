"""Leader election: one broker leads at a time, in a term that guards everything it writes.

The first broker to take ``/cluster/leader`` leads; the key is bound to its lease. The others watch
the key, check it periodically as well, and try to take it when it is free. A leader whose rounds
are slow resigns for a while. Serving topics needs no leader: without one, only new topics and moves
wait.
"""

from __future__ import annotations

import asyncio
import logging

from broker_containers.cluster.membership import Membership
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import NotFound, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.keys import leader
from sulina.metadata.keys.leader import LeaderRecord
from sulina.metadata.store import Compare, MetadataStore
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SLOW_ROUNDS = 3
_STOP_SECONDS = 2.0
_PAUSE = 0.2


class Election:
    """This broker's part in the election. Use as ``async with``; leaving it resigns."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        membership: Membership,
        settings: ClusterSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tables = tables
        self._membership = membership
        self.settings = settings
        self._term = 0
        self._held_by = 0
        """The lease that the term was won with."""
        self._abstains_until = float("-inf")
        self._slow_rounds = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Election:
        self._task = asyncio.create_task(self._run(), name="election")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        try:
            await within(self._clock, _STOP_SECONDS, self._leave())
        except (SulinaError, TimeoutError) as error:
            _log.warning("resigning failed; leadership ends with the lease: %s", error)

    @property
    def term(self) -> int:
        """The term in which this broker leads; 0 if it does not lead, or cannot be sure."""
        lease = self._membership.lease
        return self._term if lease is not None and lease.id == self._held_by else 0

    def guard(self) -> Compare:
        """The guard for everything the leader writes. Raises ``Retriable`` if it does not lead."""
        term = self.term
        if not term:
            raise Retriable(f"{self._membership.broker} no longer leads the cluster")
        return leader.in_term(term)

    async def led(self) -> int:
        """Wait until this broker leads; returns the term."""
        while not self.term:
            await self._changed.wait()
        return self.term

    async def took(self, seconds: float) -> None:
        """The leader calls this with the duration of each round; slow rounds make it resign."""
        slow = seconds > self.settings.slow_seconds
        self._slow_rounds = self._slow_rounds + 1 if slow else 0
        if self._slow_rounds >= _SLOW_ROUNDS:
            await self.step_down(f"its rounds take {seconds:.1f} s")

    async def step_down(self, reason: str) -> None:
        """Let another broker lead, and do not stand for election for a while."""
        _log.warning("%s resigns as leader: %s", self._membership.broker, reason)
        self._abstains_until = self._clock.now() + self.settings.abstain_seconds
        self._slow_rounds = 0
        await self._leave()

    async def _leave(self) -> None:
        term, self._term = self._term, 0
        if term:
            await leader.leave(self._store, term)

    async def _run(self) -> None:
        while True:
            try:
                await self._try()
            except (Retriable, UnknownOutcome, NotFound) as error:
                # Not found means our lease: it expired before we noticed. Whether an attempt
                # without an answer succeeded shows at the next check.
                _log.info("checking the leader failed; will retry: %s", error)
                await self._clock.sleep(_PAUSE)
            await self._news()

    async def _news(self) -> None:
        """Wait until the leader seems to have changed, or the check interval has passed."""
        end = self._clock.now() + self.settings.check_seconds
        while (left := end - self._clock.now()) > 0:
            news = self._tables.prefix_cache.news
            if self._looks_changed():
                return
            try:
                await within(self._clock, left, news.wait())
            except TimeoutError:
                return

    def _looks_changed(self) -> bool:
        who, term = self._tables.leader()
        if self.term:
            return term > self.term
        # Without a lease it cannot be taken, so a free key is not a reason to try.
        return who is None and self._willing() and self._membership.lease is not None

    def _willing(self) -> bool:
        return self._clock.now() >= self._abstains_until and not self._membership.me.leaving

    async def _try(self) -> None:
        lease = self._membership.lease
        if lease is None:
            self._term = 0
            return
        who = self._membership.broker
        if self._willing():
            seat = await leader.take(
                self._store, LeaderRecord(who, self._clock.wall_us()), lease.id
            )
        else:
            seat = await leader.look(self._store)
        if seat.holder is None or seat.holder.broker != who:
            self._term = 0
        elif seat.term != self._term:
            await self._claim(seat.term, lease.id)

    async def _claim(self, term: int, lease: int) -> None:
        """The key has our name: from this attempt, or from one whose answer was lost."""
        found = await self._store.get(leader.KEY)
        if found is None or found.mod_revision != term or found.lease != lease:
            # Bound to a lease of an earlier registration: it must not outlive that.
            await leader.leave(self._store, term)
            return
        self._term, self._held_by = term, lease
        _log.info("%s leads the cluster, term %d", self._membership.broker, term)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
