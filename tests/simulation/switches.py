"""Every safeguard as a switch: those of the quorum code, and those that live around it.

With all of them on the simulated code is exactly what runs in production. Switching one off
replaces a part by one that lacks the safeguard; ``patched`` does so for the time of one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any
from unittest.mock import patch

from broker_containers.topic_log import takeover
from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.ledger_scan import Found, scan
from broker_containers.topic_log.managed_ledger import ManagedLedger
from storage_grpc.journal import reader
from storage_grpc.journal.format import IMAGE_SIZE
from storage_grpc.ledgers import Ledgers
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.recovery import Recovery
from storage_grpc.quorum.settings import Safeguards
from storage_grpc.quorum.writer import QuorumWriter
from sulina.errors import NotFound
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, StoredMetadata
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef
from tests.simulation import cluster_patches, tier_patches


@dataclass(frozen=True, slots=True)
class Switches:
    """All are on unless a run is to show that one is needed."""

    quorum: Safeguards = field(default_factory=Safeguards)
    sync_before_ack: bool = True
    """A storage node acknowledges after fdatasync."""
    check_crc: bool = True
    """Every read verifies the checksum."""
    incarnation_in_name: bool = True
    """A node that lost its disk is another member."""
    unclean_is_unknown: bool = True
    """After an unclean stop a node does not deny what it may have had."""
    durable_fence: bool = True
    """The fence survives a restart of the node."""
    life_in_appends: bool = True
    """A node that may have lost a fence takes nothing from who does not know that."""
    ordered_fence: bool = True
    """A fence is answered when every append before it is decided."""
    fence_unknown_ledger: bool = True
    """Fencing a ledger that the node does not know creates it there, fenced."""
    recover_on_takeover: bool = True
    """A new owner recovers the last ledger before it serves."""
    swap_ledger_list: bool = True
    """A topic's list of ledgers is changed by compare-and-swap."""
    raise_epoch: bool = True
    """Every takeover has an epoch of its own."""
    recover_dedup: bool = True
    """A new owner learns the producers' sequences from the ledger."""
    show_only_confirmed: bool = True
    """Readers never get what is not confirmed."""
    guard_cursors: bool = True
    """A cursor is stored only by the owner of the topic."""
    linearizable_reads: bool = True
    """The metadata store never answers from an old state."""
    read_back_unknown: bool = True
    """A swap whose outcome is unknown is looked up before the writer goes on."""
    heed_closing_conflict: bool = True
    """A recovery that loses the closing swap does not go by its own end."""
    guard_by_term: bool = True
    """Whatever the leader writes is guarded by its term."""
    swap_owners: bool = True
    """An owner's record is changed by compare-and-swap."""
    lease_ends_locally: bool = True
    """A holder stops believing in a lease before the store lets go of it."""
    claim_by_lease: bool = True
    """A leader's place with our name counts only if it is bound to our lease."""
    mirror_stays_ahead: bool = True
    """A mirror never goes back to something older, not for a single key."""
    mirror_sees_all: bool = True
    """A mirror that missed changes lists again."""
    removal_first: bool = True
    """A topic that is served is given up before the next broker gets it."""
    check_owner: bool = True
    """A broker serves only topics whose record names it."""
    paths_with_owners: bool = True
    """Brokers' own paths change with the owners' records, in one transaction."""
    verify_objects: bool = True
    """An object is read back as a whole and compared before it counts."""
    swap_before_delete: bool = True
    """A ledger's entries go only when the topic's list says that its object is there."""
    put_if_absent: bool = True
    """An object is never written over."""

    def names(self) -> list[str]:
        """The names of all switches, those of the quorum code first."""
        own = [f.name for f in fields(self) if f.name != "quorum"]
        return [f.name for f in fields(Safeguards)] + own

    @staticmethod
    def about_cluster(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, is one of the cluster's services."""
        return not CLUSTER_SAFEGUARDS.isdisjoint(name.split("+"))

    @staticmethod
    def about_tier(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, is one of the cold tier."""
        return not TIER_SAFEGUARDS.isdisjoint(name.split("+"))

    def without(self, name: str) -> Switches:
        """The same with one safeguard off, or with several: ``this+that``."""
        name, _, others = name.partition("+")
        if others:
            return self.without(others).without(name)
        if name in {f.name for f in fields(Safeguards)}:
            return replace(self, quorum=replace(self.quorum, **{name: False}))
        return replace(self, **{name: False})  # type: ignore[arg-type]  # a bool each


CLUSTER_SAFEGUARDS = frozenset(
    {
        "guard_by_term",
        "swap_owners",
        "lease_ends_locally",
        "claim_by_lease",
        "mirror_stays_ahead",
        "mirror_sees_all",
        "removal_first",
        "check_owner",
        "paths_with_owners",
    }
)
"""They matter only where the cluster's services run."""
TIER_SAFEGUARDS = frozenset({"verify_objects", "swap_before_delete", "put_if_absent"})
"""They matter only where ledgers become objects."""


@contextmanager
def patched(switches: Switches) -> Iterator[None]:
    """Put the parts without a safeguard in place of the real ones, for a while."""
    changes: list[tuple[Any, str, Any]] = []
    if not switches.check_crc:
        changes.append((reader, "_verify", _trust))
    if not switches.recover_dedup:
        changes.append((takeover, "scan", _scan_without_dedup))
    if not switches.show_only_confirmed:
        changes.append((ManagedLedger, "end", property(_end_of_all, _set_end)))
    if not switches.recover_on_takeover:
        changes.append((QuorumLedgers, "recover", _just_read))
    if not switches.raise_epoch:
        changes.append((takeover, "LedgerList", _same_epoch))
    if not switches.read_back_unknown:
        changes.append((QuorumWriter, "_read_back", _believe))
    if not switches.heed_closing_conflict:
        changes.append((Recovery, "_close", _close_anyway))
    changes += cluster_patches.changes(switches)
    changes += tier_patches.changes(switches)
    for target, name, value in changes:
        patcher = patch.object(target, name, value, create=True)
        patcher.start()
    try:
        yield
    finally:
        patch.stopall()


def _trust(
    data: memoryview, offset: int, salt: int, ledger: int, place: Any
) -> tuple[int, memoryview]:
    start = offset + IMAGE_SIZE
    return -1, data[start : start + place.length]


async def _scan_without_dedup(
    ledgers: Ledgers, ref: LedgerRef, last_entry: int | None, dedup: Dedup
) -> Found:
    return await scan(ledgers, ref, last_entry, Dedup())


def _end_of_all(log: Any) -> int:
    end: int = max(log.__dict__.get("end", 0), log._next)
    return end


def _set_end(log: Any, end: int) -> None:
    log.__dict__["end"] = end


def _same_epoch(epoch: int = 0, ledgers: tuple[LedgerRef, ...] = (), pages: Any = ()) -> Any:
    return LedgerList(min(epoch, 1), ledgers, pages)


async def _just_read(ledgers: Any, ledger: int) -> int:
    """The end of a ledger, from whoever has entries: nobody is fenced, nothing is closed."""
    stored = await ledger_metadata.get(ledgers._store, ledger)
    if stored.value.last_entry is not None:
        return stored.value.last_entry
    entry = 0
    try:
        while True:
            entry += len(await ledgers.read(ledger, entry, max_entries=64, max_bytes=1 << 20))
    except NotFound:
        return entry - 1


async def _believe(writer: Any, value: LedgerMetadata) -> StoredMetadata:
    return StoredMetadata(value, writer._stored.revision)


async def _close_anyway(recovery: Any, stored: StoredMetadata, closed: LedgerMetadata) -> int:
    await ledger_metadata.swap(recovery._store, recovery._ledger, stored.revision, closed)
    assert closed.last_entry is not None
    return closed.last_entry
