"""A ledger's own metadata: ``/ledgers/{id}/metadata``, changed only by compare-and-swap.

Members of an ensemble are named by node and incarnation, so that a node which came back with an
empty disk is another member: nobody takes its "no such entry" for that of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from sulina.errors import AlreadyExists, NotFound, Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.store import MetadataStore

ROOT = "/ledgers/"


class LedgerPhase(StrEnum):
    """Where a ledger is in its life."""

    OPEN = "open"
    IN_RECOVERY = "in_recovery"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A run of entries, from ``first_entry`` on, that was written to one ensemble."""

    first_entry: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """What must be known to write, read and recover a ledger."""

    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    state: LedgerPhase = LedgerPhase.OPEN
    last_entry: int | None = None
    """Known once closed; -1 for an empty ledger."""
    under_replicated: bool = False
    """It has, or had at some time, fewer copies than its topic asks for."""

    def __post_init__(self) -> None:
        if not self.write_quorum >= self.ack_quorum > self.write_quorum / 2:
            raise Refused(
                f"a write quorum of {self.write_quorum} and an ack quorum of {self.ack_quorum} do "
                "not go together: more than half of the copies must acknowledge"
            )
        if not self.fragments or self.fragments[0].first_entry != 0:
            raise Refused("a ledger's first fragment begins with entry 0")
        for before, after in pairwise(self.fragments):
            if before.first_entry >= after.first_entry:
                raise Refused("a ledger's fragments begin one after the other")
        for fragment in self.fragments:
            if len(set(fragment.ensemble)) != self.write_quorum:
                raise Refused(f"each fragment has {self.write_quorum} different nodes")
        if (self.state is LedgerPhase.CLOSED) != (self.last_entry is not None):
            raise Refused("a ledger has a last entry exactly if it is closed")

    @property
    def enough_to_rule_out(self) -> int:
        """How many nodes must deny an entry before no ack quorum can have it."""
        return self.write_quorum - self.ack_quorum + 1

    def ensemble_of(self, entry: int) -> tuple[str, ...]:
        """The nodes that entry was written to."""
        return next(f.ensemble for f in reversed(self.fragments) if f.first_entry <= entry)

    def with_ensemble(self, first_entry: int, ensemble: tuple[str, ...]) -> LedgerMetadata:
        """The same with another ensemble from ``first_entry`` on."""
        kept = tuple(f for f in self.fragments if f.first_entry < first_entry)
        return replace(self, fragments=(*kept, Fragment(first_entry, ensemble)))

    def closed(self, last_entry: int) -> LedgerMetadata:
        """The same, closed behind ``last_entry``."""
        return replace(self, state=LedgerPhase.CLOSED, last_entry=last_entry)


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """Metadata as read; the revision is what a swap expects."""

    value: LedgerMetadata
    revision: int


def key(ledger: int) -> str:
    """Where a ledger's metadata is."""
    return f"{ROOT}{ledger:020d}/metadata"


async def create(store: MetadataStore, ledger: int, value: LedgerMetadata) -> StoredMetadata:
    """Write the metadata of a new ledger. Raises ``AlreadyExists``."""
    revision = await cas.swap(store, key(ledger), 0, record.encode(value))
    if revision is None:
        raise AlreadyExists(f"ledger {ledger} exists already")
    return StoredMetadata(value, revision)


async def get(store: MetadataStore, ledger: int) -> StoredMetadata:
    """Raises ``NotFound`` if there is no such ledger, or it was deleted."""
    item = await store.get(key(ledger))
    if item is None:
        raise NotFound(f"there is no ledger {ledger}")
    return StoredMetadata(record.decode(LedgerMetadata, item), item.mod_revision)


async def swap(
    store: MetadataStore, ledger: int, expected_revision: int, value: LedgerMetadata
) -> StoredMetadata | None:
    """Replace the metadata if it is as read; None if somebody was faster."""
    revision = await cas.swap(store, key(ledger), expected_revision, record.encode(value))
    return None if revision is None else StoredMetadata(value, revision)


async def delete(store: MetadataStore, ledger: int) -> bool:
    """Forget a ledger; returns whether it was known."""
    return await store.delete(key(ledger))
