"""The handler of ``storage.show``: what this broker knows of where its messages are."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from broker_containers.operations.running import handles
from storage_grpc.quorum.settings import QuorumSettings
from sulina.metadata.keys import ledger_metadata, record
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, LedgerPhase
from sulina.metadata.store import MetadataStore
from sulina.operations.storage import (
    LedgerInDoubt,
    StorageDetails,
    StorageNodeRow,
    StorageOperations,
)

_MOST_LEDGERS: Final = 5_000
_LEAF: Final = "/metadata"


class StorageNodes(Protocol):
    """The storage nodes that a broker uses."""

    def rows(self) -> Sequence[StorageNodeRow]:
        """Each node, healthy or not."""
        ...


class StorageHandlers:
    """Without ``nodes``, a journal in ``folder`` stores everything."""

    def __init__(
        self,
        store: MetadataStore,
        nodes: StorageNodes | None,
        quorum: QuorumSettings | None,
        folder: Path | None,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._quorum = quorum
        self._folder = folder

    @handles(StorageOperations.show)
    async def show(self) -> StorageDetails:
        space = None if self._folder is None else shutil.disk_usage(self._folder)
        checked, doubts = (0, ()) if self._nodes is None else await self._doubts()
        return StorageDetails(
            embedded=self._nodes is None,
            disk_bytes=None if space is None else space.total,
            disk_free_bytes=None if space is None else space.free,
            write_quorum=1 if self._quorum is None else self._quorum.write_quorum,
            ack_quorum=1 if self._quorum is None else self._quorum.ack_quorum,
            nodes=() if self._nodes is None else tuple(self._nodes.rows()),
            ledgers_checked=checked,
            in_doubt=doubts,
        )

    async def _doubts(self) -> tuple[int, tuple[LedgerInDoubt, ...]]:
        listing = await self._store.range(ledger_metadata.ROOT, limit=_MOST_LEDGERS)
        found, checked = [], 0
        for item in listing.items:
            rest = item.key.removeprefix(ledger_metadata.ROOT)
            if not rest.endswith(_LEAF):
                continue
            checked += 1
            value = record.decode(LedgerMetadata, item)
            if value.under_replicated or value.state is LedgerPhase.IN_RECOVERY:
                found.append(
                    LedgerInDoubt(
                        int(rest.removesuffix(_LEAF)),
                        value.state.value,
                        value.under_replicated,
                        value.fragments[-1].ensemble,
                    )
                )
        return checked, tuple(found)
