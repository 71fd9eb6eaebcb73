"""How much a subscription may keep loaded: settings that change while brokers run."""

from __future__ import annotations

from dataclasses import dataclass

from broker_containers import settable


@dataclass(frozen=True, slots=True)
class SubscriptionLimits:
    """How much a subscription may keep loaded."""

    # fmt: off
    frames: int = settable.count(4096, 1, 1 << 20, settable.NOW,
        "Maximum number of frames a subscription keeps loaded.")
    records: int = settable.count(1 << 20, 1, 1 << 30, settable.NOW,
        "Maximum number of records a subscription keeps loaded.")
    delayed: int = settable.count(1 << 16, 1, 1 << 24, settable.NOW,
        "Maximum number of delayed frames a subscription tracks.")
    """Reading ahead stops at this limit."""
    # fmt: on
