"""What can be set for replicated ledgers, and the safeguards that a simulation may switch off."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Each is a rule of the ledger protocol. All are on, except in the simulation that proves
    that each is needed: with one of them off it finds a violation."""

    fence_before_recovery: bool = True
    """Recovery fences enough nodes before it looks for the end."""
    fence_on_recovery_read: bool = True
    """Every read of a recovery fences."""
    unknown_is_not_absent: bool = True
    """An answer that is neither the entry nor "no such entry" never counts as a denial."""
    enough_denials: bool = True
    """An entry is absent only if so many nodes deny it that no ack quorum can have it."""
    rewrite_recovered: bool = True
    """Recovered entries are written again until the ack quorum has them."""
    commit_before_confirm: bool = True
    """An ensemble change is in the metadata before the new node counts."""
    drop_failed_from_confirmed: bool = True
    """A node that failed no longer counts for entries above the LAC."""
    confirm_in_order: bool = True
    """An entry is confirmed only after all before it."""
    ack_quorum: bool = True
    """An entry is confirmed only by the whole ack quorum, not by the first node."""
    stop_when_fenced: bool = True
    """A writer that meets a fence confirms nothing any more."""
    swap_on_change: bool = True
    """An ensemble change by the writer is a compare-and-swap, not a plain write."""
    close_by_swap: bool = True
    """A ledger is closed by compare-and-swap."""
    recover_from_last_fragment: bool = True
    """Recovery asks the ensemble of the last fragment, not of the first."""


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """How many copies, and how patient."""

    write_quorum: int = 3
    ack_quorum: int = 2
    node_timeout: float = 2.0
    """A node that leaves an append unanswered for so long is replaced."""
    node_pending_bytes: int = 128 << 20
    """So is one that has so much unanswered."""
    call_timeout: float = 2.0
    """For reads, fences and deletes at one node."""
    hedge_after: float = 0.1
    """A read is sent to a second node when the first is silent for so long."""
    stall_timeout: float = 20.0
    """How long appends wait for nodes when too few are there."""
    retry_seconds: float = 0.2
    high_water: int = 32 << 20
    """Bytes not confirmed above which publishers are held back."""
    safeguards: Safeguards = field(default_factory=Safeguards)
