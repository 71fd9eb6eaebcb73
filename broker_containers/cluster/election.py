"""Leader election: one broker at a time leads, in a term that guards all it writes.

The first to take ``/cluster/leader`` leads; the key goes with its lease. The others watch it, look
at it now and then as well, and try when it is free. A leader that notices that it is slow lets
another one lead for a while. Nobody needs a leader to serve topics: without one, only new topics
and changes wait.
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
_GOODBYE_SECONDS = 2.0
_PAUSE = 0.2


class Election:
    """This broker's part in it. Use as ``async with``; leaving it hands the place on."""

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
        """The lease with which the term was won."""
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
            await within(self._clock, _GOODBYE_SECONDS, self._leave())
        except (SulinaError, TimeoutError) as error:
            _log.warning("the leader's place was not given up and goes with the lease: %s", error)

    @property
    def term(self) -> int:
        """The term in which this broker leads; 0 if it does not, or can't be sure of it."""
        lease = self._membership.lease
        return self._term if lease is not None and lease.id == self._held_by else 0

    def guard(self) -> Compare:
        """What must hold for whatever the leader writes. Raises ``Retriable`` if it leads not."""
        term = self.term
        if not term:
            raise Retriable(f"{self._membership.broker} does not lead the cluster any more")
        return leader.in_term(term)

    async def led(self) -> int:
        """Wait until this broker leads; returns the term."""
        while not self.term:
            await self._changed.wait()
        return self.term

    async def took(self, seconds: float) -> None:
        """To be told by the leader: a round of its work took so long."""
        slow = seconds > self.settings.slow_seconds
        self._slow_rounds = self._slow_rounds + 1 if slow else 0
        if self._slow_rounds >= _SLOW_ROUNDS:
            await self.step_down(f"its rounds take {seconds:.1f} s")

    async def step_down(self, reason: str) -> None:
        """Let another broker lead, and do not try for a while."""
        _log.warning("%s gives up the lead: %s", self._membership.broker, reason)
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
                # Not found is our lease: the store has given it up before we knew. Whether a try
                # that got no answer succeeded shows when the place is looked at.
                _log.info("the leader's place could not be looked at: %s", error)
                await self._clock.sleep(_PAUSE)
            await self._news()

    async def _news(self) -> None:
        """Wait until the place seems to have changed hands, or a while has passed."""
        end = self._clock.now() + self.settings.check_seconds
        while (left := end - self._clock.now()) > 0:
            news = self._tables.mirror.news
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
        # Without a lease nothing can be taken, so a free place is no news.
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
        """The place has our name: from this try, or from one whose answer was lost."""
        found = await self._store.get(leader.KEY)
        if found is None or found.mod_revision != term or found.lease != lease:
            # Bound to a lease of an earlier life: it must not outlive that.
            await leader.leave(self._store, term)
            return
        self._term, self._held_by = term, lease
        _log.info("%s leads the cluster, term %d", self._membership.broker, term)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
