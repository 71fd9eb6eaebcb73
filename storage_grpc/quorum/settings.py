"""Settings of replicated ledgers."""

from __future__ import annotations

from dataclasses import dataclass


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
