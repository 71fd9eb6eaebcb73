"""Notices the death of a broker's process before its lease runs out.

When a process dies its machine closes its connections and refuses new ones, within milliseconds. So
the leader keeps a connection to every broker, and every broker one to the leader. A broker to which
there was a connection, and whose machine then says several times that nobody listens there, is
dead: its registration is struck out, as if its lease had run out. Silence proves nothing:
of a broker that does not answer, or can't be reached, the lease decides.

Like a lease this is a hint that saves time. If it is wrong (something on the way refuses in the
broker's name) the broker registers anew, and because nobody could talk to it since then it is not
struck out again. Nobody is struck out while many seem to be gone: that is the network, then.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from broker_containers.cluster.election import Election
from broker_containers.cluster.liveness import LivenessConnector
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import NobodyThere, SulinaError
from sulina.metadata.keys import leader
from sulina.metadata.keys.members import register_key
from sulina.metadata.keys.path import part
from sulina.metadata.store import Compare, Delete, MetadataStore, ModRevisionIs, Op
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_REFUSALS: Final = 3
"""Refusals in a row that are believed."""
_BETWEEN: Final = 0.1
"""Seconds between two of them."""
_PAUSE: Final = 1.0
"""After any other failure, and while nothing may be struck out."""


class FailureDetector:
    """Run it in a task on every broker."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        membership: Membership,
        election: Election,
        liveness: LivenessConnector,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tables = tables
        self._membership = membership
        self._election = election
        self._liveness = liveness
        self._watching: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._refusing: set[str] = set()
        self._news = asyncio.Event()
        tables.brokers.on_change(lambda *_: self._news.set())
        tables.leaders.on_change(lambda *_: self._news.set())
        self.struck = 0
        """Registrations that this broker has struck out."""

    async def run(self) -> None:
        """Look on, for as long as the broker takes part. Ends when cancelled."""
        try:
            while True:
                self._news.clear()
                self._choose()
                with suppress(TimeoutError):  # that this broker leads now is no news of the tables
                    await within(self._clock, _PAUSE, self._news.wait())
        finally:
            tasks = list(self._watching.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _choose(self) -> None:
        """Watch whom this broker should watch, each in its present registration."""
        wanted = self._wanted()
        for key in [key for key in self._watching if key not in wanted]:
            self._watching.pop(key).cancel()
        for key in wanted:
            if key not in self._watching:
                task = asyncio.create_task(self._watch(*key), name=f"failure detector of {key[0]}")
                self._watching[key] = task

    def _wanted(self) -> list[tuple[str, int]]:
        """In the order of the tables: a set's would be another one in each process."""
        me, revisions = self._membership.broker, self._tables.brokers.revisions
        if self._election.term:
            watched = [one for one in self._tables.living() if one != me]
        else:
            leading, _ = self._tables.leader()
            watched = [] if leading is None or leading == me else [leading]
        found = [(one, revisions.get(part(one), 0)) for one in watched]
        return [(one, revision) for one, revision in found if revision]

    async def _watch(self, broker: str, revision: int) -> None:
        """One broker, in one registration."""
        met, refusals = False, 0
        try:
            while (found := self._tables.broker(broker)) is not None:
                try:
                    connection = await self._liveness.open(broker, found.url)
                except NobodyThere:
                    refusals += 1
                    self._refusing.add(broker)
                    if met and refusals >= _REFUSALS and self._may_strike():
                        await self._strike(broker, revision)
                    await self._clock.sleep(_BETWEEN if refusals < _REFUSALS else _PAUSE)
                except SulinaError:
                    refusals = 0
                    self._refusing.discard(broker)
                    await self._clock.sleep(_PAUSE)
                else:
                    met, refusals = True, 0
                    self._refusing.discard(broker)
                    await connection.ended()
        finally:
            self._refusing.discard(broker)

    def _may_strike(self) -> bool:
        others = len(self._tables.living()) - 1
        return self._membership.lease is not None and len(self._refusing) <= max(1, others // 2)

    async def _strike(self, broker: str, revision: int) -> None:
        """Delete the registration, if it is still the one that was watched."""
        key = register_key(broker)
        guards: list[Compare] = [ModRevisionIs(key, revision)]
        ops: list[Op] = [Delete(key)]
        leading, term = self._tables.leader()
        if leading == broker:
            guards.append(leader.in_term(term))
            ops.append(Delete(leader.KEY))
        try:
            if leading != broker:
                guards.append(self._election.guard())
            if (await self._store.txn(guards, ops)).succeeded:
                self.struck += 1
                _log.warning("%s is dead: its machine says that nobody listens there", broker)
        except SulinaError as error:
            _log.info("%s seems dead and could not be struck out: %s", broker, error)
