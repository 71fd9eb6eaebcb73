"""Handlers of ``storage``: what this broker knows of where its messages are."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from broker_containers.operations.running import handles
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import Refused, Retriable
from sulina.metadata.keys import ledger_metadata, record
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, LedgerPhase
from sulina.metadata.store import MetadataStore
from sulina.operations.storage import (
    LedgerInDoubt,
    LedgersChecked,
    LogLevel,
    StorageDetails,
    StorageNodeRow,
    StorageOperations,
)
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_MOST_LEDGERS: Final = 5_000
_LEAF: Final = "/metadata"
_SECONDS: Final = 2.0
"""How long ``show`` waits for the metadata."""


class StorageNodes(Protocol):
    """The storage nodes that a broker uses."""

    async def rows(self) -> Sequence[StorageNodeRow]:
        """Each node, healthy or not."""
        ...

    def unhealthy(self) -> Sequence[str]:
        """The names of those that are not healthy."""
        ...

    async def set_log_level(self, name: str, level: str) -> str:
        """Set the level of a node's log, as it was started if empty. Raises ``NotFound``."""
        ...


class StorageHandlers:
    """Without ``nodes``, a journal in ``folder`` stores everything."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        nodes: StorageNodes | None,
        quorum: QuorumSettings | None,
        folder: Path | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._nodes = nodes
        self._quorum = quorum
        self._folder = folder

    @handles(StorageOperations.show)
    async def show(self) -> StorageDetails:
        space = None if self._folder is None else shutil.disk_usage(self._folder)
        (found, trouble), rows = await asyncio.gather(self._doubts(), self._rows())
        return StorageDetails(
            embedded=self._nodes is None,
            disk_bytes=None if space is None else space.total,
            disk_free_bytes=None if space is None else space.free,
            write_quorum=1 if self._quorum is None else self._quorum.write_quorum,
            ack_quorum=1 if self._quorum is None else self._quorum.ack_quorum,
            nodes=tuple(rows),
            ledgers_checked=found.ledgers_checked,
            in_doubt=found.in_doubt,
            next_ledger=found.next_ledger,
            trouble=trouble,
            away=found.away,
        )

    async def _rows(self) -> Sequence[StorageNodeRow]:
        return () if self._nodes is None else await self._nodes.rows()

    async def _doubts(self) -> tuple[LedgersChecked, str]:
        """Also why there are none: without the metadata, nodes are shown all the same."""
        try:
            return await within(self._clock, _SECONDS, self.ledgers()), ""
        except (Retriable, TimeoutError):
            return LedgersChecked(0, (), None), (
                "the metadata store does not answer: check that etcd runs, and your network"
            )

    @handles(StorageOperations.ledgers)
    async def ledgers(self, *, after: str = "") -> LedgersChecked:
        if self._nodes is None:
            return LedgersChecked(0, (), None)
        root = ledger_metadata.ROOT
        start = root + after if after else None
        listing = await self._store.range(root, limit=_MOST_LEDGERS, after=start)
        found, checked, away = [], 0, 0
        unhealthy = set(self._nodes.unhealthy())
        for item in listing.items:
            rest = item.key.removeprefix(root)
            if not rest.endswith(_LEAF):
                continue
            checked += 1
            value = record.decode(LedgerMetadata, item)
            away += not unhealthy.isdisjoint(_names(value))
            if value.under_replicated or value.state is LedgerPhase.IN_RECOVERY:
                found.append(
                    LedgerInDoubt(
                        int(rest.removesuffix(_LEAF)),
                        value.state.value,
                        value.under_replicated,
                        value.fragments[-1].ensemble,
                    )
                )
        full = len(listing.items) == _MOST_LEDGERS
        last = listing.items[-1].key.removeprefix(root) if full else None
        return LedgersChecked(checked, tuple(found), last, away)

    @handles(StorageOperations.log_level)
    async def log_level(self, node: str, *, level: str = "") -> LogLevel:
        if self._nodes is None:
            raise Refused(
                "the broker's own journal stores the messages, there are no storage nodes: change "
                "the broker's level with sulina config set log.level"
            )
        return LogLevel(node, await self._nodes.set_log_level(node, level))


def _names(ledger: LedgerMetadata) -> Iterator[str]:
    """The nodes with copies of a ledger, without their incarnations."""
    for fragment in ledger.fragments:
        for member in fragment.ensemble:
            yield member.rpartition("@")[0] or member
