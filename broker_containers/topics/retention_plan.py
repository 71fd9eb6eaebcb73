"""What retention removes of a topic, now and later, and why. Pure: nothing is changed.

Whole ledgers go, oldest first, as soon as one of the policy's fields allows it. The newest ledger
goes only by age and consumption, and only once an empty one, which takes over the next offset and
the producers' sequences, has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.policy import Policy


class Reason(StrEnum):
    """Which field of a policy removes a ledger."""

    AGE = "retention_ms"
    SIZE = "retention_bytes"
    CONSUMED = "delete_consumed"


@dataclass(frozen=True, slots=True)
class Fate:
    """When a ledger leaves its topic, as far as that is known now."""

    ref: LedgerRef
    leaves_us: int | None
    """None if that depends on what is published or acknowledged, or never happens."""
    reason: Reason | None


def expired(refs: Sequence[LedgerRef], policy: Policy, now_us: int, consumed: int) -> int:
    """How many of the oldest ledgers, except the newest, the policy allows to remove.

    ``consumed``: every subscription has acknowledged all records below this offset.
    """
    kept_bytes = sum(ref.bytes for ref in refs)
    count = 0
    for ref in refs[:-1]:
        if _reason(ref, policy, now_us, consumed, kept_bytes) is None:
            break
        kept_bytes -= ref.bytes
        count += 1
    return count


def _reason(
    ref: LedgerRef, policy: Policy, now_us: int, consumed: int, kept_bytes: int
) -> Reason | None:
    if too_old(ref, policy, now_us):
        return Reason.AGE
    if policy.retention_bytes and kept_bytes > policy.retention_bytes:
        return Reason.SIZE
    if policy.delete_consumed and (ref.last_offset or 0) < consumed:
        return Reason.CONSUMED
    return None


def too_old(ref: LedgerRef, policy: Policy, now_us: int) -> bool:
    """Whether the policy allows to remove a ledger because of its age."""
    return bool(policy.retention_ms and now_us - ref.last_time_us > policy.retention_ms * 1000)


def fates(refs: Sequence[LedgerRef], policy: Policy, now_us: int, consumed: int) -> list[Fate]:
    """When each ledger leaves the topic, if nothing more is published or acknowledged."""
    kept_bytes = sum(ref.bytes for ref in refs)
    found: list[Fate] = []
    earliest: int | None = now_us
    for place, ref in enumerate(refs):
        by_size = policy if place < len(refs) - 1 else _without_size(policy)
        newest_is_empty = place == len(refs) - 1 and not ref.bytes
        reason = _reason(ref, by_size, now_us, consumed, kept_bytes)
        leaves_us: int | None = now_us
        if reason is None or newest_is_empty:
            reason = Reason.AGE if policy.retention_ms and ref.last_time_us else None
            leaves_us = ref.last_time_us + policy.retention_ms * 1000 if reason else None
        # No ledger goes before those that are older.
        earliest = None if earliest is None or leaves_us is None else max(earliest, leaves_us)
        found.append(Fate(ref, earliest, reason if earliest is not None else None))
        kept_bytes -= ref.bytes
    return found


def _without_size(policy: Policy) -> Policy:
    return policy.with_changes({"retention_bytes": 0})
