"""The writer of a replicated ledger: confirms in order, replaces nodes that fail.

Every entry is sent to all nodes of the ensemble. A node that fails is replaced: the change, which
starts at the entry after the LAC, is in the metadata before acknowledgements of the new node count.
Without a spare node the writer continues with the remaining ones, if they are an ack quorum.

The writer knows the life of each node from before the metadata last confirmed that it owns the
ledger. It sends nothing to a node in another life, which may have lost the fence of a newer owner.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from storage_grpc.ledgers import PendingBytes
from storage_grpc.node import Node
from storage_grpc.outcomes import Done, future_of, tell
from storage_grpc.quorum.nodes import Nodes, replacements
from storage_grpc.quorum.settings import QuorumTimeouts
from sulina.errors import Fenced, NotFound, Retriable, SulinaError, Unavailable, UnknownOutcome
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, LedgerPhase, StoredMetadata
from sulina.metadata.store import MetadataStore
from sulina.runtime import stages
from sulina.runtime.seam import Buffer, Clock

_ALL = 1 << 16
"""More nodes than any cluster has."""
_MAX_UNANSWERED_BYTES = 128 << 20
"""A node with more unanswered bytes than this is replaced."""


@dataclass(slots=True, eq=False)
class _PendingEntry:
    entry: int
    payload: Buffer
    done: Done
    acked: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Replica:
    """One node of the ensemble, and what it has not answered yet."""

    node: Node
    unanswered: dict[int, float] = field(default_factory=dict)
    """When each entry was sent."""
    bytes: int = 0
    dropped: bool = False


class QuorumWriter:
    """Writes one ledger. Stops permanently as soon as it learns of a newer owner."""

    def __init__(
        self,
        ledger: int,
        stored: StoredMetadata,
        lives: Mapping[str, str],
        nodes: Nodes,
        store: MetadataStore,
        clock: Clock,
        write_quorum: int,
        timeouts: QuorumTimeouts,
        pending_bytes: PendingBytes,
    ) -> None:
        """``write_quorum`` is the configured one; the ledger may have fewer nodes."""
        self.ledger = ledger
        self.lac = -1
        self._stored = stored
        self._nodes = nodes
        self._store = store
        self._clock = clock
        self._write_quorum = write_quorum
        self._timeouts = timeouts
        self._pending_bytes = pending_bytes
        self._next = 0
        self._pending: deque[_PendingEntry] = deque()
        self._replicas: dict[str, _Replica] = {}
        self._lives = dict(lives)
        """Life of each member, read before the metadata last confirmed our ownership."""
        self._gaps = False
        """Some entries have fewer copies than the write quorum."""
        self._error: SulinaError | None = None
        self._changing: asyncio.Task[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        """Done when nothing is pending any more."""
        for member in stored.value.ensemble_of(0):
            self._open_replica(member)
        if len(self._replicas) < stored.value.write_quorum:
            self._start_change()  # a node was lost while the ledger was created

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata as last written."""
        return self._stored.value

    @property
    def stopped(self) -> bool:
        """Whether it takes no more appends: it was closed, was fenced, or failed."""
        return self._error is not None

    @property
    def wants_roll(self) -> bool:
        """See ``LedgerWriter.wants_roll``."""
        complete = len(self._replicas) == self.metadata.write_quorum and not self._gaps
        if complete and not self.metadata.under_replicated:
            return False
        return len(self._nodes.choose(self._write_quorum)) >= self._write_quorum

    # ---- appending ----

    def append(self, payload: Buffer) -> asyncio.Future[None]:
        return future_of(partial(self.submit, payload))

    def submit(self, payload: Buffer, done: Done) -> None:
        if self._error is not None:
            asyncio.get_running_loop().call_soon(done, self._error)
            return
        pending = _PendingEntry(self._next, payload, done)
        self._next += 1
        self._pending.append(pending)
        self._pending_bytes.add(len(payload))
        for replica in list(self._replicas.values()):
            self._send(replica, pending)
        self._arm_watchdog()

    def _open_replica(self, member: str) -> None:
        node = self._nodes.get(member)
        if node is not None and node.life == self._lives.get(node.id):
            self._replicas[member] = _Replica(node)

    def _send(self, replica: _Replica, pending: _PendingEntry) -> None:
        replica.unanswered[pending.entry] = self._clock.now()
        replica.bytes += len(pending.payload)
        sent = replica.node.append(self.ledger, pending.entry, self.lac, pending.payload)
        sent.add_done_callback(partial(self._answered, replica, pending))
        if replica.bytes > _MAX_UNANSWERED_BYTES:
            self._drop_slow()

    def _answered(
        self, replica: _Replica, pending: _PendingEntry, sent: asyncio.Future[None]
    ) -> None:
        error = UnknownOutcome("cancelled") if sent.cancelled() else sent.exception()
        if replica.unanswered.pop(pending.entry, None) is not None:
            replica.bytes -= len(pending.payload)
        if self._error is not None or replica.dropped:
            return
        if error is None:
            pending.acked.add(replica.node.id)
            self._confirm()
        elif isinstance(error, Fenced | NotFound):  # NotFound: the ledger was deleted there
            self._stop_fenced(error)
        else:
            self._drop(replica)

    def _confirm(self) -> None:
        while self._pending and self._has_ack_quorum(self._pending[0]):
            first = self._pending.popleft()
            self.lac = first.entry
            if stages.traces:
                stages.stored_by(first.payload, self.metadata.ack_quorum)
            self._settle(first, None)

    def _has_ack_quorum(self, pending: _PendingEntry) -> bool:
        return len(pending.acked) >= self.metadata.ack_quorum

    def _stop_fenced(self, error: SulinaError) -> None:
        self._stop(Fenced(str(error)))

    def _stop(self, error: SulinaError) -> None:
        """Confirm nothing more. Pending appends fail with ``error``, but may be stored."""
        if self._error is not None:
            return
        self._error = error
        if self._watchdog is not None:
            self._watchdog.cancel()
        while self._pending:
            self._settle(self._pending.popleft(), error)
        self._note_drained()

    def _settle(self, pending: _PendingEntry, error: SulinaError | None) -> None:
        """Report an entry's outcome, in the order of the appends."""
        self._pending_bytes.remove(len(pending.payload))
        tell(pending.done, error)
        self._note_drained()

    def _note_drained(self) -> None:
        if self._drained is not None and not self._pending:
            self._drained.set_result(None)
            self._drained = None

    # ---- nodes that fail ----

    def _arm_watchdog(self) -> None:
        if self._watchdog is None and self._error is None:
            delay = self._timeouts.append / 4
            self._watchdog = asyncio.get_running_loop().call_later(delay, self._check_replicas)

    def _check_replicas(self) -> None:
        self._watchdog = None
        self._drop_slow()
        if self._pending or any(replica.unanswered for replica in self._replicas.values()):
            self._arm_watchdog()

    def _drop_slow(self) -> None:
        """Drop nodes that are slower than the others; none if too few would be left."""
        latest = self._clock.now() - self._timeouts.append
        slow = [
            replica
            for replica in self._replicas.values()
            if replica.bytes > _MAX_UNANSWERED_BYTES
            or (replica.unanswered and next(iter(replica.unanswered.values())) < latest)
        ]
        if len(self._replicas) - len(slow) >= self.metadata.ack_quorum:
            for replica in slow:
                self._drop(replica)

    def _drop(self, replica: _Replica) -> None:
        if replica.dropped:
            return
        replica.dropped = True
        member = replica.node.id
        self._replicas.pop(member, None)
        self._nodes.failed(member)
        self._discard_acks(member)
        self._start_change()

    def _discard_acks(self, member: str) -> None:
        """Stop counting a failed node for unconfirmed entries: the next ensemble lacks it."""
        for pending in self._pending:
            pending.acked.discard(member)

    def _start_change(self) -> None:
        if self._changing is None and self._error is None:
            self._changing = asyncio.create_task(self._change())

    async def _change(self) -> None:
        """Replace lost members, or wait until at least an ack quorum is available."""
        try:
            began = self._clock.now()
            while self._error is None:
                ensemble = self.metadata.fragments[-1].ensemble
                lost = [member for member in ensemble if member not in self._replicas]
                spare = self._nodes.choose(len(lost), exclude=ensemble)
                swapped = replacements(ensemble, lost, spare)
                if swapped:
                    await self._replace(ensemble, swapped)
                    began = self._clock.now()
                elif not lost or len(self._replicas) >= self.metadata.ack_quorum:
                    return  # complete, or enough until the topic rolls to a new ledger
                elif back := self._returned(lost):
                    self._gaps = True
                    if await self._may_rejoin(back):
                        self._join(back)
                elif self._clock.now() - began > self._timeouts.stall:
                    self._stop(
                        Unavailable(f"too few storage nodes for ledger {self.ledger}: start more")
                    )
                else:
                    await self._clock.sleep(self._timeouts.retry)
        finally:
            self._changing = None

    def _returned(self, lost: list[str]) -> list[str]:
        """Lost members that are healthy again. They lack some entries, as a node does that was
        down for a while."""
        healthy = {node.id for node in self._nodes.choose(_ALL)}
        return [member for member in lost if member in healthy]

    async def _may_rejoin(self, members: list[str]) -> bool:
        """Whether these members may be written to again.

        If one of them is in a new life, it may have lost a fence: then a swap of the metadata must
        prove that we still own the ledger.
        """
        lives = self._lives_of(members)
        if lives == {member: self._lives.get(member) for member in members}:
            return True
        if not await self._write(self.metadata):
            return False
        self._lives.update(lives)
        return True

    def _lives_of(self, members: Iterable[str]) -> dict[str, str]:
        found = [self._nodes.get(member) for member in members]
        return {node.id: node.life for node in found if node is not None}

    async def _replace(self, ensemble: tuple[str, ...], swapped: dict[str, str]) -> None:
        changed = tuple(swapped.get(member, member) for member in ensemble)
        lives = self._lives_of(changed)
        # The new nodes count only once the metadata names them.
        if await self._write(self.metadata.with_ensemble(self.lac + 1, changed)):
            self._lives.update(lives)
            self._join(swapped.values())

    def _join(self, members: Iterable[str]) -> None:
        """Send all unconfirmed entries to members that joined the ensemble."""
        for member in members:
            self._open_replica(member)
            replica = self._replicas.get(member)
            if replica is not None:
                for pending in list(self._pending):
                    self._send(replica, pending)
        self._arm_watchdog()

    # ---- metadata ----

    async def _write(self, value: LedgerMetadata) -> bool:
        """Swap the metadata for ``value``. Stops the writer if it no longer owns the ledger."""
        try:
            stored = await ledger_metadata.swap(
                self._store, self.ledger, self._stored.revision, value
            )
            if stored is None:
                stored = await self._as_written(value)
        except (Retriable, UnknownOutcome):
            stored = await self._read_back(value)
        except SulinaError as error:
            self._stop(error)
            return False
        if stored is None:
            if self._error is None:
                self._stop(Fenced(f"ledger {self.ledger} has a newer owner"))
            return False
        self._stored = stored
        return self._error is None

    async def _as_written(self, value: LedgerMetadata) -> StoredMetadata | None:
        """The stored ``value``, also if it is written only now, over our last version."""
        current = await ledger_metadata.get(self._store, self.ledger)
        if current.value == value:
            return current
        if current.value == self._stored.value and current.value.state is LedgerPhase.OPEN:
            return await ledger_metadata.swap(self._store, self.ledger, current.revision, value)
        return None

    async def _read_back(self, value: LedgerMetadata) -> StoredMetadata | None:
        """Read the result of a swap with an unknown outcome, and repeat the swap if necessary."""
        began = self._clock.now()
        while self._error is None:
            await self._clock.sleep(self._timeouts.retry)
            try:
                return await self._as_written(value)
            except (Retriable, UnknownOutcome) as error:
                if self._clock.now() - began > self._timeouts.stall:
                    self._stop(error)
            except SulinaError as error:
                self._stop(error)
        return None

    async def close(self) -> int:
        """Close the ledger at its last confirmed entry, which is returned.

        Waits for pending appends. Raises ``Fenced`` if a newer owner has taken over the ledger.
        """
        while self._error is None and (self._pending or self._changing is not None):
            waiting: list[asyncio.Future[None]] = []
            if self._pending:
                if self._drained is None:
                    self._drained = asyncio.get_running_loop().create_future()
                waiting.append(self._drained)
            if self._changing is not None:
                waiting.append(self._changing)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._error is not None:
            raise self._error
        await self._write_end()
        self._stop(Fenced(f"ledger {self.ledger} is closed"))
        return self.lac

    async def _write_end(self) -> None:
        if not await self._write(self.metadata.closed(self.lac)):
            assert self._error is not None
            raise self._error
