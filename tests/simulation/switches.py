"""All safeguards of the protocol, as switches.

With all of them on, the simulation runs the production code. Switching one off replaces a method by
one that lacks the safeguard, for the time of one run (``patched``), or has a simulated machine
leave it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from unittest.mock import patch

from tests.simulation import (
    cluster_patches,
    life_patches,
    quorum_patches,
    table_patches,
    tier_patches,
)


@dataclass(frozen=True, slots=True)
class Switches:
    """All are on, except to show that one is needed."""

    fence_before_recovery: bool = True
    """Recovery fences enough nodes before it looks for the end."""
    fence_on_recovery_read: bool = True
    """Every read of a recovery fences."""
    unknown_is_not_absent: bool = True
    """Only "no such entry" counts as a denial, never an error."""
    enough_denials: bool = True
    """An entry is absent only if so many nodes deny it that no ack quorum can have it."""
    rewrite_recovered: bool = True
    """Recovered entries are written again until the ack quorum has them."""
    commit_before_confirm: bool = True
    """An ensemble change is in the metadata before the new node counts."""
    drop_failed_from_confirmed: bool = True
    """A node that failed no longer counts for entries above the LAC."""
    confirm_in_order: bool = True
    """An entry is confirmed only after all entries before it."""
    ack_quorum: bool = True
    """An entry is confirmed only by the whole ack quorum, not by the first node."""
    stop_when_fenced: bool = True
    """A writer that finds its ledger fenced confirms nothing more."""
    swap_on_change: bool = True
    """The writer changes its ensemble by compare-and-swap, not by a plain write."""
    close_by_swap: bool = True
    """A ledger is closed by compare-and-swap."""
    recover_from_last_fragment: bool = True
    """Recovery queries the ensemble of the last fragment, not of the first."""
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
    """A node that may have lost a fence takes no appends from writers that do not know it."""
    ordered_fence: bool = True
    """A fence is answered after every append before it has its outcome."""
    fence_unknown_ledger: bool = True
    """Fencing a ledger that the node does not know creates it there, fenced."""
    recover_on_takeover: bool = True
    """A new owner recovers the last ledger before it serves."""
    swap_ledger_list: bool = True
    """A topic's list of ledgers is changed by compare-and-swap."""
    raise_epoch: bool = True
    """Every takeover has its own epoch."""
    recover_dedup: bool = True
    """A new owner learns the producers' sequences from the ledger."""
    show_only_confirmed: bool = True
    """Readers never receive unconfirmed records."""
    guard_cursors: bool = True
    """A cursor is stored only by the owner of the topic."""
    linearizable_reads: bool = True
    """The metadata store never answers from an old state."""
    read_back_unknown: bool = True
    """A swap with an unknown outcome is read back before the writer continues."""
    heed_closing_conflict: bool = True
    """A recovery that loses the closing swap does not use the end that it found."""
    guard_by_term: bool = True
    """All writes of the leader are guarded by its term."""
    swap_owners: bool = True
    """An owner's record is changed by compare-and-swap."""
    lease_ends_locally: bool = True
    """A holder considers a lease expired before the store does."""
    claim_by_lease: bool = True
    """A leader record with our name counts only if it is bound to our lease."""
    cache_stays_ahead: bool = True
    """A prefix cache never returns to an older state, not even of a single key."""
    cache_sees_all: bool = True
    """A prefix cache that missed changes lists again."""
    removal_first: bool = True
    """A served topic is released before the next broker gets it."""
    check_owner: bool = True
    """A broker serves only topics whose record names it."""
    paths_with_owners: bool = True
    """Brokers' own paths change with the owners' records, in one transaction."""
    verify_objects: bool = True
    """An object is read back completely and verified before it counts."""
    swap_before_delete: bool = True
    """A ledger's entries are deleted only after the topic's list names its object."""
    put_if_absent: bool = True
    """An object is never overwritten."""
    plan_replacements: bool = True
    """A list says which objects are being replaced before the new object is written."""
    keep_replacement: bool = True
    """A new owner continues, or gives up, the replacement that an earlier one began."""
    note_replaced: bool = True
    """The swap that replaces objects notes them for deletion, in one transaction."""
    swap_before_discard: bool = True
    """Objects are deleted only after the list names the one that replaces them."""
    commit_if_unchanged: bool = True
    """The catalog takes a commit only if the table is as it was read."""
    plan_again: bool = True
    """After a conflict or a lost answer, a commit is planned from what the table has now."""
    wait_at_gaps: bool = True
    """Objects after a missing one wait for it."""
    add_earlier_objects: bool = True
    """An object that appears after its successor is added before it."""
    forget_deleted: bool = True
    """What retention deleted leaves the table."""
    exchange_replaced: bool = True
    """Files whose objects were replaced are exchanged."""
    progress_in_snapshot: bool = True
    """How far the table got is part of its snapshot, and rolled back with it."""
    files_of_others: bool = True
    """After a snapshot of somebody else, the files say how far the table got."""
    check_expiry: bool = True
    """Records that have expired are not delivered."""
    wait_for_expiry: bool = True
    """Records are passed over only once they have expired."""
    old_enough: bool = True
    """Retention by age removes a ledger once all its records are old enough."""
    whole_ledger_is_old: bool = True
    """All its records, not only the first one."""
    consumed_by_all: bool = True
    """Records count as consumed once every subscription has acknowledged them."""
    larger_than_allowed: bool = True
    """Retention by size removes ledgers only while the topic is larger than allowed."""
    keep_for_grace: bool = True
    """What was removed is deleted only when its time is over."""
    remove_with_grace: bool = True
    """What retention removes is kept for a time."""
    wait_for_kept: bool = True
    """What is not kept waits until what was removed before it is deleted."""
    delete_as_decided: bool = True
    """A deletion takes only ledgers that were not restored or replaced since it was decided."""
    decide_again: bool = True
    """A removal takes only ledgers that are still those for which it was decided."""
    keep_entries: bool = True
    """Entries of tiered ledgers stay on storage nodes as long as the policy says."""
    drop_only_entries: bool = True
    """Whoever has deleted entries changes nothing else of the ledger."""
    keep_tombstones: bool = True
    """Compaction drops tombstones only when they are old enough."""
    settle_tombstones: bool = True
    """Compaction drops tombstones only a time after it has removed what they delete."""
    settle_restored: bool = True
    """What retention had removed counts as compacted only once a round has compared it."""
    settled_only: bool = True
    """Tombstones after what an earlier round has compared stay, however old they are."""
    count_compacted: bool = True
    """A round counts only what compaction replaced, not what merging did."""
    newest_stays: bool = True
    """Compaction drops records only if a later one has their key."""
    erase_entries: bool = True
    """An erasure deletes the entries of tiered ledgers."""
    forget_erased: bool = True
    """What brokers have in memory is read again after an erasure."""
    erase_again: bool = True
    """Erasures are repeated for what is restored after them."""
    erase_to_the_end: bool = True
    """An erasure closes the open ledger first, so that it covers all that was published before."""
    keep_requests: bool = True
    """A new owner continues the erasures that are open."""
    search_replaced: bool = True
    """An erasure searches an object again that another replacement has replaced."""
    hide_removed: bool = True
    """Objects that are marked as removed are not listed."""
    number_marks: bool = True
    """Of the marks of removed objects the highest number counts, not the last to arrive."""
    keep_for_tables: bool = True
    """Removed objects are kept until tables had the time to drop them."""

    @classmethod
    def names(cls) -> list[str]:
        """The names of all switches, those of the quorum code first."""
        return [f.name for f in fields(cls)]

    @staticmethod
    def about_cluster(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, belongs to the cluster's services."""
        return not CLUSTER_SAFEGUARDS.isdisjoint(name.split("+"))

    @staticmethod
    def about_tier(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, belongs to the cold tier."""
        return not TIER_SAFEGUARDS.isdisjoint(name.split("+"))

    @staticmethod
    def about_tables(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, belongs to the tables of topics."""
        return not TABLE_SAFEGUARDS.isdisjoint(name.split("+"))

    @staticmethod
    def about_life(name: str) -> bool:
        """Whether a safeguard, or one of ``this+that``, belongs to the life of records."""
        return not LIFE_SAFEGUARDS.isdisjoint(name.split("+"))

    def without(self, name: str) -> Switches:
        """The same with one safeguard off, or with several: ``this+that``."""
        name, _, others = name.partition("+")
        if others:
            return self.without(others).without(name)
        return replace(self, **{name: False})


CLUSTER_SAFEGUARDS = frozenset(
    {
        "guard_by_term",
        "swap_owners",
        "lease_ends_locally",
        "claim_by_lease",
        "cache_stays_ahead",
        "cache_sees_all",
        "removal_first",
        "check_owner",
        "paths_with_owners",
    }
)
"""Safeguards of the cluster's services."""
TIER_SAFEGUARDS = frozenset(
    {
        "verify_objects",
        "swap_before_delete",
        "put_if_absent",
        "plan_replacements",
        "keep_replacement",
        "note_replaced",
        "swap_before_discard",
    }
)
"""Safeguards of the cold tier."""
TABLE_SAFEGUARDS = frozenset(
    {
        "commit_if_unchanged",
        "plan_again",
        "wait_at_gaps",
        "add_earlier_objects",
        "forget_deleted",
        "exchange_replaced",
        "progress_in_snapshot",
        "files_of_others",
        "hide_removed",
        "number_marks",
        "keep_for_tables",
    }
)
"""Safeguards of topics as tables."""
LIFE_SAFEGUARDS = frozenset(life_patches.PATCHES)
"""Safeguards of the life of records."""


@contextmanager
def patched(switches: Switches) -> Iterator[None]:
    """Replace the methods of all safeguards that are off, until the block ends."""
    changes = quorum_patches.changes(switches)
    changes += cluster_patches.changes(switches)
    changes += tier_patches.changes(switches)
    changes += table_patches.changes(switches)
    changes += life_patches.changes(switches)
    for target, name, value in changes:
        # Only an instance attribute may be missing: a patch of a renamed method must fail.
        patch.object(target, name, value, create=name == "end").start()
    try:
        yield
    finally:
        patch.stopall()
