"""The metadata store, reached through the network: delays, lost replies, partitions, restarts.

One real ``EmbeddedStore`` serves all clients. Every call has a deadline: a failed read is
``Unavailable``, an unanswered change is ``UnknownOutcome`` and may take effect later. Each client
checks that no answer is older than one that it had when it sent the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from sulina.errors import SulinaError, Unavailable, UnknownOutcome
from sulina.metadata import check
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.embedded.state import Change, KeyRemoved, KeyStored, StoreState
from sulina.metadata.embedded.uncommitted import UncommittedChanges
from sulina.metadata.keys.assignments import OWNERS
from sulina.metadata.keys.leader import KEY as LEADER
from sulina.metadata.lease import Lease
from sulina.metadata.store import (
    Compacted,
    Compare,
    Delete,
    Event,
    Get,
    KeyValue,
    Listing,
    ModRevisionIs,
    Op,
    Put,
    Response,
    TxnResult,
    Watch,
)
from sulina.runtime.seam import Clock
from tests.simulation.loop import SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork, Work
from tests.simulation.switches import Switches
from tests.simulation.watches import Pump, SimWatch

_T = TypeVar("_T")
_TIMEOUT = 1.5

Changed = Callable[[str, bytes | None, int], None]
"""Called for every change as it becomes visible: key, value (None: deleted), revision."""
Tell = Callable[[Event | None, SulinaError | None], None]
"""Called for each event of a watch, or with the error that ends it."""


class WatchedStore(EmbeddedStore):
    """The real store; it reports changes to the checker."""

    def __init__(self, clock: Clock, state: StoreState, log: None = None) -> None:
        super().__init__(clock, state, log)
        self.changed: Changed | None = None
        self.writers: dict[int, str] = {}
        """The process that made each revision; none if a lease expired."""
        self.pumps: dict[Pump, None] = {}

    def restarted(self) -> WatchedStore:
        """The store after a restart: all data, and leases with their full time.

        Call it on the machine of the new process.
        """
        store = WatchedStore(self._clock, self._state)
        store.changed, store.writers = self.changed, self.writers
        store._restore(())
        return store

    @property
    def leases(self) -> dict[int, int]:
        """The leases that are held."""
        return self._state.leases

    @property
    def revision(self) -> int:
        return self._state.revision

    def pump(self, prefix: str, from_revision: int, send: Callable[[Event], None]) -> Pump:
        """Send changes since ``from_revision`` immediately, and all later ones."""
        pump = Pump(self._history, prefix, from_revision, send)
        self.pumps[pump] = None
        pump.go_on()
        return pump

    async def txn_by(
        self, who: str, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]
    ) -> TxnResult:
        """``txn`` that records the process that made the revision."""
        size = check.check_txn(compares, then, otherwise)

        def run(uncommitted: UncommittedChanges) -> TxnResult:
            before = uncommitted.revision
            result = uncommitted.run(compares, then, otherwise)
            if result.revision > before:
                self.writers[result.revision] = who
            return result

        return await self._committer.commit(run, size)

    def _publish(self, changes: list[Change]) -> None:
        super()._publish(changes)
        if self.changed is not None:
            for change in changes:
                match change:
                    case KeyStored(item):
                        self.changed(item.key, item.value, item.mod_revision)
                    case KeyRemoved(key, revision):
                        self.changed(key, None, revision)
        for pump in self.pumps:
            pump.go_on()


class MetadataService:
    """The service of the metadata machine; it leaves out safeguards that are switched off."""

    def __init__(self, store: WatchedStore, switches: Switches, chance: Random) -> None:
        self.store = store
        self._switches = switches
        self._chance = chance
        self._before: dict[str, tuple[int, KeyValue | None]] = {}
        """The state of each key before its last change."""

    async def txn(
        self,
        compares: Sequence[Compare],
        then: Sequence[Op],
        otherwise: Sequence[Op],
        who: str = "",
    ) -> TxnResult:
        switches = self._switches
        written = [op.key for op in then if isinstance(op, Put)]
        if not switches.swap_ledger_list and any(key.endswith("/ledgers") for key in written):
            compares = [c for c in compares if not isinstance(c, ModRevisionIs)]
        if not switches.guard_cursors and any("/cursors/" in key for key in written):
            compares = ()
        if not switches.guard_by_term:
            compares = [c for c in compares if c.key != LEADER or not isinstance(c, ModRevisionIs)]
        if not switches.swap_owners and any(key.startswith(OWNERS) for key in written):
            compares = [c for c in compares if not c.key.startswith(OWNERS)]
        if not switches.linearizable_reads:
            await self._remember(written)
            reads_only = not compares and all(isinstance(op, Get) for op in then)
            if reads_only and self._chance.random() < 0.3:
                return await self._stale(then)
        return await self.store.txn_by(who, compares, then, otherwise)

    async def _remember(self, keys: list[str]) -> None:
        for key in keys:
            item = await self.store.get(key)
            self._before[key] = (1 if item is None else item.mod_revision, item)

    async def _stale(self, then: Sequence[Op]) -> TxnResult:
        responses = []
        revision = (await self.store.range("/", limit=1)).revision
        for op in then:
            assert isinstance(op, Get)
            item = await self.store.get(op.key)
            if op.key in self._before:
                revision, item = self._before[op.key]
            responses.append(Response(item))
        return TxnResult(True, revision, tuple(responses))

    async def range(
        self, prefix: str, limit: int | None, after: str | None, keys_only: bool
    ) -> Listing:
        return await self.store.range(prefix, limit=limit, after=after, keys_only=keys_only)

    async def grant(self, ttl: int) -> int:
        return (await self.store.grant(ttl)).id

    async def renew(self, lease: int) -> bool:
        return await self.store.renew_lease(lease)

    async def revoke(self, lease: int) -> None:
        await self.store.revoke_lease(lease)

    async def watch(
        self, prefix: str, from_revision: int, connection: SimConnection, tell: Tell
    ) -> None:
        """Push changes until the connection ends."""
        pumps = self.store.pumps
        try:
            pump = self.store.pump(
                prefix, from_revision, lambda event: connection.push(tell, event, None)
            )
        except Compacted as error:
            connection.push(tell, None, error)
            return
        connection.on_server_side_end.append(lambda: pumps.pop(pump, None))

    async def compact(self, revision: int) -> None:
        await self.store.compact(revision)


class SimMetadata:
    """``MetadataStore`` of one machine, over the network."""

    def __init__(
        self,
        network: SimNetwork,
        machine: SimMachine,
        server: SimEndpoint,
        fail: Callable[[str], None],
        clock: Clock,
        who: str,
        *,
        watches_resume: bool = True,
    ) -> None:
        """``who`` is the process that writes."""
        self._network = network
        self._machine = machine
        self._server = server
        self._fail = fail
        self._clock = clock
        self._who = who
        self._watches_resume = watches_resume
        self._connection: SimConnection | None = None
        self._seen = 0
        """The highest revision of an answer."""

    async def get(self, key: str) -> KeyValue | None:
        result = await self._read(lambda service: service.txn((), (Get(key),), ()))
        assert isinstance(result, TxnResult)
        return result.responses[0].item

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        listing = await self._read(lambda service: service.range(prefix, limit, after, keys_only))
        assert isinstance(listing, Listing)
        return listing

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return (await self.txn((), (Put(key, value, lease),))).revision

    async def delete(self, key: str) -> bool:
        return (await self.txn((), (Delete(key),))).responses[0].deleted > 0

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        seen = self._seen
        result: TxnResult = await self._ask(
            lambda service: service.txn(compares, then, otherwise, self._who)
        )
        return self._in_order(result, seen)

    async def grant(self, ttl_seconds: int) -> Lease:
        sent = self._clock.now()
        lease: int = await self._ask(lambda service: service.grant(ttl_seconds))
        return Lease(lease, ttl_seconds, self, self._clock, sent)

    async def renew_lease(self, lease: int) -> bool:
        renewed: bool = await self._ask(lambda service: service.renew(lease))
        return renewed

    async def revoke_lease(self, lease: int) -> None:
        await self._ask(lambda service: service.revoke(lease))

    def watch(self, prefix: str, *, from_revision: int) -> Watch:
        return SimWatch(
            self._network,
            self._machine,
            self._server,
            prefix,
            from_revision,
            resumes=self._watches_resume,
        )

    async def compact(self, revision: int) -> None:
        await self._ask(lambda service: service.compact(revision))

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _read(self, work: Work[Any]) -> TxnResult | Listing:
        seen = self._seen
        try:
            answer: TxnResult | Listing = await self._ask(work)
        except UnknownOutcome as error:
            raise Unavailable(str(error)) from None
        return self._in_order(answer, seen)

    async def _ask(self, work: Work[Any]) -> Any:
        if self._connection is None or not self._connection.open:
            self._connection = self._network.connect(self._machine, self._server)
        answer = self._connection.request(work)
        timer = asyncio.get_running_loop().call_later(_TIMEOUT, _late, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _in_order(self, answer: _T, seen: int) -> _T:
        assert isinstance(answer, TxnResult | Listing)
        if answer.revision < seen:
            self._fail(
                f"{self._machine.name} received revision {answer.revision} of the metadata after "
                f"it had seen {seen}"
            )
        self._seen = max(self._seen, answer.revision)
        return answer


def _late(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        with suppress(SulinaError):
            answer.set_exception(UnknownOutcome("the metadata store did not answer in time"))
