"""What a subscription counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SubscriptionCounters:
    """Totals since the subscription was opened, in records."""

    delivered: int = 0
    acknowledged: int = 0
    nacked: int = 0
    timed_out: int = 0
    redelivered: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    expired: int = 0
    """Passed over because nobody took them in time; those in dead letters count there too."""
    bytes_out: int = 0
    """Bytes of the frames sent, each counted whole."""
