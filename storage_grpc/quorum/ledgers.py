"""Replicated ledgers for a broker: the same interface as the embedded ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storage_grpc.entries import Entry
from storage_grpc.ledgers import PendingBytes
from storage_grpc.node import Node
from storage_grpc.quorum.calls import ask_all
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.reader import QuorumReader
from storage_grpc.quorum.recovery import Recovery
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.quorum.writer import QuorumWriter
from sulina.errors import NotFound, Unavailable
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.ledger_metadata import Fragment, LedgerMetadata
from sulina.metadata.store import MetadataStore
from sulina.runtime.seam import Clock

_CACHED = 10_000
_KEPT = 256
"""Small ledgers whose entries are kept after their recovery: a new owner looks into them next."""


class QuorumLedgers:
    """All ledgers on the storage nodes of a cluster."""

    def __init__(
        self, nodes: Nodes, store: MetadataStore, clock: Clock, settings: QuorumSettings
    ) -> None:
        self._nodes = nodes
        self._store = store
        self._clock = clock
        self._settings = settings
        self._reader = QuorumReader(nodes, clock, settings)
        self._writers: dict[int, QuorumWriter] = {}
        self._closed: dict[int, LedgerMetadata] = {}
        self._recovered: dict[int, list[Entry]] = {}
        self._pending_bytes = PendingBytes(settings.high_water)

    async def create(self, ledger: int) -> QuorumWriter:
        """A new ledger on as many nodes as there are, up to the write quorum.

        Raises ``Unavailable`` if there are fewer than the ack quorum.
        """
        settings = self._settings
        chosen = self._nodes.choose(settings.write_quorum)
        if len(chosen) < settings.ack_quorum:
            raise Unavailable(
                f"{len(chosen)} storage nodes are healthy and a ledger needs at least "
                f"{settings.ack_quorum}: start more, or wait for them"
            )
        value = LedgerMetadata(
            len(chosen),
            settings.ack_quorum,
            (Fragment(0, tuple(node.id for node in chosen)),),
            under_replicated=len(chosen) < settings.write_quorum,
        )
        # As they are before the ledger is in the metadata, where somebody may take it over.
        lives = {node.id: node.life for node in chosen}
        stored = await ledger_metadata.create(self._store, ledger, value)
        writer = QuorumWriter(
            ledger,
            stored,
            lives,
            self._nodes,
            self._store,
            self._clock,
            settings,
            self._pending_bytes,
        )
        self._writers[ledger] = writer
        return writer

    async def recover(self, ledger: int) -> int:
        recovery = Recovery(ledger, self._nodes, self._store, self._clock, self._settings)
        closed = await recovery.run()
        assert closed.last_entry is not None
        self._remember(ledger, closed)  # for who looks into it next
        if recovery.entries:
            if len(self._recovered) >= _KEPT:
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
            # Nodes may have more: what a fenced writer sent and nobody confirmed.
            max_entries = min(max_entries, metadata.last_entry - first + 1)
            if (kept := self._recovered.get(ledger)) is not None:
                return _chosen(kept[first:], max_entries, max_bytes, head)
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
                self._remember(ledger, known)
        return known

    def _remember(self, ledger: int, closed: LedgerMetadata) -> None:
        if len(self._closed) >= _CACHED:
            del self._closed[next(iter(self._closed))]
        self._closed[ledger] = closed

    async def delete(self, ledger: int) -> None:
        """Forget a ledger. Nodes that can't be reached keep their copies until they ask."""
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
        timeout = self._settings.call_timeout
        await ask_all(self._nodes, self._clock, timeout, sorted(members), call, lambda _: False)

    @property
    def overloaded(self) -> bool:
        return self._pending_bytes.overloaded

    async def wait_writable(self) -> None:
        await self._pending_bytes.wait()


def _chosen(
    entries: Sequence[Entry], max_entries: int, max_bytes: int, head: int | None
) -> list[Entry]:
    """Those of ``entries`` that a read returns: at least one, within the limits."""
    found: list[Entry] = []
    size = 0
    for entry in entries[: max(1, max_entries)]:
        shown = entry if head is None else replace(entry, payload=entry.payload[:head])
        size += len(shown.payload)
        if found and size > max_bytes:
            break
        found.append(shown)
    return found
