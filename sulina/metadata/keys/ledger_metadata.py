"""A ledger's own metadata: ``/ledgers/{id}/metadata``, changed only by compare-and-swap.

Members of an ensemble are named by node and incarnation, so that a node that returns with an empty
disk is another member: its "no such entry" is not mistaken for the previous one's.
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
    """The phase of a ledger: it is written, recovered, then closed for good."""

    OPEN = "open"
    IN_RECOVERY = "in_recovery"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Fragment:
    """The entries from ``first_entry`` on, which were written to one ensemble."""

    first_entry: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """What is needed to write, read and recover a ledger."""

    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    state: LedgerPhase = LedgerPhase.OPEN
    last_entry: int | None = None
    """Known once closed; -1 for an empty ledger."""
    under_replicated: bool = False
    """It has, or had at some time, fewer copies than its topic requires."""

    def __post_init__(self) -> None:
        if not self.write_quorum >= self.ack_quorum > self.write_quorum / 2:
            raise Refused(
                f"invalid ack quorum {self.ack_quorum} for a write quorum of {self.write_quorum}: "
                "more than half of the copies must acknowledge"
            )
        if not self.fragments or self.fragments[0].first_entry != 0:
            raise Refused("a ledger's first fragment must start at entry 0")
        for before, after in pairwise(self.fragments):
            if before.first_entry >= after.first_entry:
                raise Refused("a ledger's fragments must start at ascending entries")
        for fragment in self.fragments:
            if len(set(fragment.ensemble)) != self.write_quorum:
                raise Refused(f"each fragment needs {self.write_quorum} different nodes")
        if (self.state is LedgerPhase.CLOSED) != (self.last_entry is not None):
            raise Refused("a ledger must have a last entry if, and only if, it is closed")

    @property
    def enough_to_rule_out(self) -> int:
        """How many nodes must lack an entry to rule out that an ack quorum has it."""
        return self.write_quorum - self.ack_quorum + 1

    def ensemble_of(self, entry: int) -> tuple[str, ...]:
        """The nodes that the entry was written to."""
        return next(f.ensemble for f in reversed(self.fragments) if f.first_entry <= entry)

    def with_ensemble(self, first_entry: int, ensemble: tuple[str, ...]) -> LedgerMetadata:
        """A copy with another ensemble from ``first_entry`` on."""
        kept = tuple(f for f in self.fragments if f.first_entry < first_entry)
        return replace(self, fragments=(*kept, Fragment(first_entry, ensemble)))

    def closed(self, last_entry: int) -> LedgerMetadata:
        """A copy that is closed after ``last_entry``."""
        return replace(self, state=LedgerPhase.CLOSED, last_entry=last_entry)


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """Metadata and the revision that it was read at, for a swap."""

    value: LedgerMetadata
    revision: int


def key(ledger: int) -> str:
    return f"{ROOT}{ledger:020d}/metadata"


async def create(store: MetadataStore, ledger: int, value: LedgerMetadata) -> StoredMetadata:
    """Write the metadata of a new ledger. Raises ``AlreadyExists``."""
    revision = await cas.swap(store, key(ledger), 0, record.encode(value))
    if revision is None:
        raise AlreadyExists(f"ledger {ledger} already exists")
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
    """Replace the metadata if it is unchanged since it was read; None if it is not."""
    revision = await cas.swap(store, key(ledger), expected_revision, record.encode(value))
    return None if revision is None else StoredMetadata(value, revision)


async def delete(store: MetadataStore, ledger: int) -> bool:
    """Delete a ledger's metadata; returns whether it existed."""
    return await store.delete(key(ledger))
