"""Settings of replicated ledgers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """How many nodes store an entry, and how many of them must have it before it is confirmed."""

    write_quorum: int = 3
    ack_quorum: int = 2


@dataclass(frozen=True, slots=True)
class QuorumTimeouts:
    """In seconds. Fixed in production; tests shorten them."""

    append: float = 2.0
    """A node that leaves an append unanswered for longer is replaced."""
    call: float = 2.0
    """For a read, fence or delete at one node."""
    hedge: float = 0.1
    """After this a read is sent to a second node as well."""
    stall: float = 20.0
    """How long appends wait while fewer nodes than the ack quorum are available."""
    retry: float = 0.2
    """The pause between attempts."""
