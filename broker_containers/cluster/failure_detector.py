"""Detects that a broker's process died before its lease expires.

When a process dies, its machine closes its connections and refuses new ones within milliseconds.
So the leader keeps a connection to every broker, and every broker keeps one to the leader. A broker
that was connected, and whose machine then refuses connections several times, is dead: its
registration is deleted, with the same effect as an expired lease. A broker that merely does not
answer proves nothing; its lease decides.

Like a lease, this is a hint that saves time. If it is wrong (a middlebox refuses on the broker's
behalf), the broker registers again, and since nobody has connected to it since then, it is not
removed again. Nothing is removed while many brokers seem to be gone: that indicates the network.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from broker_containers.cluster.election import Election
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.peers import LivenessConnector
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import NobodyThere, SulinaError
from sulina.metadata.keys import leader
from sulina.metadata.keys.members import register_key
from sulina.metadata.keys.path import part
from sulina.metadata.store import Compare, Delete, MetadataStore, ModRevisionIs, Op
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)
_REFUSALS: Final = 3
"""Consecutive refusals that prove a broker dead."""
_BETWEEN: Final = 0.1
"""Seconds between two attempts."""
_PAUSE: Final = 1.0
"""Seconds to wait after any other failure, and while nothing may be removed."""


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
        self.removed = 0
        """Registrations that this broker removed."""

    async def run(self) -> None:
        """Watch other brokers until cancelled."""
        try:
            while True:
                self._news.clear()
                self._choose()
                with suppress(TimeoutError):  # becoming the leader does not wake this
                    await within(self._clock, _PAUSE, self._news.wait())
        finally:
            await stop_tasks(*self._watching.values())

    def _choose(self) -> None:
        """Watch the brokers that this broker should watch, each in its current registration."""
        wanted = self._wanted()
        for key in [key for key in self._watching if key not in wanted]:
            self._watching.pop(key).cancel()
        for key in wanted:
            if key not in self._watching:
                task = asyncio.create_task(self._watch(*key), name=f"failure detector of {key[0]}")
                self._watching[key] = task

    def _wanted(self) -> list[tuple[str, int]]:
        """In the order of the tables: the order of a set differs between processes."""
        me, revisions = self._membership.broker, self._tables.brokers.revisions
        if self._election.term:
            watched = [one for one in self._tables.living() if one != me]
        else:
            leading, _ = self._tables.leader()
            watched = [] if leading is None or leading == me else [leading]
        found = [(one, revisions.get(part(one), 0)) for one in watched]
        return [(one, revision) for one, revision in found if revision]

    async def _watch(self, broker: str, revision: int) -> None:
        """Watch one broker in one registration."""
        met, refusals = False, 0
        try:
            while (found := self._tables.broker(broker)) is not None:
                try:
                    connection = await self._liveness.open(broker, found.url)
                except NobodyThere:
                    refusals += 1
                    self._refusing.add(broker)
                    if met and refusals >= _REFUSALS and self._may_remove():
                        await self._remove(broker, revision)
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

    def _may_remove(self) -> bool:
        others = len(self._tables.living()) - 1
        return self._membership.lease is not None and len(self._refusing) <= max(1, others // 2)

    async def _remove(self, broker: str, revision: int) -> None:
        """Delete the registration if it is still the one that was watched."""
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
                self.removed += 1
                _log.warning("%s is dead: its machine refuses connections", broker)
        except SulinaError as error:
            _log.info("%s seems dead, but removing it failed: %s", broker, error)
