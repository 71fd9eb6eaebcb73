"""When topics start new ledgers: settings that change while brokers run."""

from __future__ import annotations

from dataclasses import dataclass

from broker_containers import settable


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """When a topic starts a new ledger."""

    # fmt: off
    roll_bytes: int = settable.bytes(256 << 20, 64 << 10, 64 << 30, settable.NOW,
        "Size at which a topic starts a new ledger.")
    roll_seconds: float = settable.seconds(3600.0, 1, 30 * settable.DAY, settable.NOW,
        "Age at which a topic starts a new ledger.")
    # fmt: on
