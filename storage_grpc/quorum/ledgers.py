"""Replicated ledgers: the ``Ledgers`` interface over storage nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from storage_grpc.entries import Entry
from storage_grpc.ledgers import PendingBytes
from storage_grpc.node import Node
from storage_grpc.quorum.calls import ask_all
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.reader import QuorumReader
from storage_grpc.quorum.recovery import Recovery
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from storage_grpc.quorum.writer import QuorumWriter
from sulina.errors import NotFound, Unavailable
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.ledger_metadata import Fragment, LedgerMetadata
from sulina.metadata.store import MetadataStore
from sulina.runtime.seam import Clock

_HIGH_WATER = 32 << 20
"""Unconfirmed bytes above which publishers are held back."""
_CACHED_METADATA = 10_000
_CACHED_RECOVERIES = 256
"""Small ledgers whose entries are cached after their recovery: the new owner reads them next."""


class QuorumLedgers:
    """All ledgers on the storage nodes of a cluster."""

    def __init__(
        self,
        nodes: Nodes,
        store: MetadataStore,
        clock: Clock,
        settings: QuorumSettings,
        timeouts: QuorumTimeouts | None = None,
        near: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Reads ask members that are ``near`` first: traffic between zones costs."""
        self._nodes = nodes
        self._store = store
        self._clock = clock
        self._settings = settings
        self._timeouts = timeouts or QuorumTimeouts()
        self._reader = QuorumReader(nodes, clock, self._timeouts, near)
        self._writers: dict[int, QuorumWriter] = {}
        self._closed: dict[int, LedgerMetadata] = {}
        self._recovered: dict[int, list[Entry]] = {}
        self._pending_bytes = PendingBytes(_HIGH_WATER)

    async def create(self, ledger: int) -> QuorumWriter:
        """A new ledger on the healthy nodes, at most as many as the write quorum.

        Raises ``Unavailable`` if there are fewer than the ack quorum.
        """
        settings = self._settings
        chosen = self._nodes.choose(settings.write_quorum)
        if len(chosen) < settings.ack_quorum:
            raise Unavailable(
                f"{len(chosen)} storage nodes are healthy and a ledger needs at least "
                f"{settings.ack_quorum}: start more storage nodes, or wait until they are healthy"
            )
        value = LedgerMetadata(
            len(chosen),
            settings.ack_quorum,
            (Fragment(0, tuple(node.id for node in chosen)),),
            under_replicated=len(chosen) < settings.write_quorum,
        )
        # Read before the ledger is in the metadata: from then on it may be taken over.
        lives = {node.id: node.life for node in chosen}
        stored = await ledger_metadata.create(self._store, ledger, value)
        writer = QuorumWriter(
            ledger,
            stored,
            lives,
            self._nodes,
            self._store,
            self._clock,
            settings.write_quorum,
            self._timeouts,
            self._pending_bytes,
        )
        self._writers[ledger] = writer
        return writer

    async def recover(self, ledger: int) -> int:
        recovery = Recovery(ledger, self._nodes, self._store, self._clock, self._timeouts.call)
        closed = await recovery.run()
        assert closed.last_entry is not None
        self._cache(ledger, closed)
        if recovery.entries:
            if len(self._recovered) >= _CACHED_RECOVERIES:
                del self._recovered[next(iter(self._recovered))]
            self._recovered[ledger] = recovery.entries
        return closed.last_entry

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        metadata = await self._metadata(ledger)
        if metadata.last_entry is not None:
            if first > metadata.last_entry:
                raise NotFound(f"ledger {ledger} ends at entry {metadata.last_entry}")
            # Nodes may hold more: unconfirmed entries of a fenced writer.
            max_entries = min(max_entries, metadata.last_entry - first + 1)
            if (cached := self._recovered.get(ledger)) is not None:
                return _limited(cached[first:], max_entries, max_bytes, head)
        return await self._reader.read(
            ledger, metadata, first, max_entries=max_entries, max_bytes=max_bytes, head=head
        )

    async def _metadata(self, ledger: int) -> LedgerMetadata:
        writer = self._writers.get(ledger)
        if writer is not None and not writer.stopped:
            return writer.metadata
        self._writers.pop(ledger, None)
        known = self._closed.get(ledger)
        if known is None:
            known = (await ledger_metadata.get(self._store, ledger)).value
            if known.last_entry is not None:
                self._cache(ledger, known)
        return known

    def _cache(self, ledger: int, closed: LedgerMetadata) -> None:
        if len(self._closed) >= _CACHED_METADATA:
            del self._closed[next(iter(self._closed))]
        self._closed[ledger] = closed

    async def delete(self, ledger: int) -> None:
        """Delete a ledger. Nodes that can't be reached keep their copies."""
        self._writers.pop(ledger, None)
        self._closed.pop(ledger, None)
        self._recovered.pop(ledger, None)
        try:
            metadata = (await ledger_metadata.get(self._store, ledger)).value
        except NotFound:
            return
        await ledger_metadata.delete(self._store, ledger)

        async def call(node: Node) -> None:
            await node.delete(ledger)

        members = {member for fragment in metadata.fragments for member in fragment.ensemble}
        await ask_all(
            self._nodes, self._clock, self._timeouts.call, sorted(members), call, lambda _: False
        )

    @property
    def overloaded(self) -> bool:
        return self._pending_bytes.overloaded

    async def wait_writable(self) -> None:
        await self._pending_bytes.wait()


def _limited(
    entries: Sequence[Entry], max_entries: int, max_bytes: int, head: int | None
) -> list[Entry]:
    """The first of ``entries`` within the limits, at least one."""
    found: list[Entry] = []
    size = 0
    for entry in entries[: max(1, max_entries)]:
        shown = entry if head is None else replace(entry, payload=entry.payload[:head])
        size += len(shown.payload)
        if found and size > max_bytes:
            break
        found.append(shown)
    return found
