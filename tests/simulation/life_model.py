"""What a topic's policy allows at a moment, computed from the records themselves.

Policies change while brokers run, and a broker may apply the former one for a moment: what any of
the policies in force allows is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.policy import Policy
from tests.simulation.life_records import LifeRecord

_STALE_SECONDS = 8.0
"""How long a broker may apply a policy that was replaced: it may have been paused."""

CLOCK_SKEW = 0.5
"""How far the wall clocks of brokers are apart, as seconds of the run: they jump."""


def in_short(policy: Policy) -> str:
    """What a policy says, without what it leaves at its default."""
    usual = asdict(Policy())
    own = {name: value for name, value in asdict(policy).items() if value != usual[name]}
    return ", ".join(f"{name} {value}" for name, value in own.items()) or "no policy"


@dataclass(slots=True)
class Erased:
    """An erasure: when it was asked for, and what it reported."""

    key: bytes
    end: int
    """When it was asked for, all records below this offset were confirmed."""
    number: int = 0
    until: int | None = None
    """Once it is done: records below this offset are erased."""
    epoch: int = 0
    """The epoch of the owner that reported it."""
    done: float = 0.0
    """When it did."""


@dataclass(slots=True)
class LifeTopic:
    """What was observed of a topic, beside its contents."""

    local_seconds: float
    """How long entries stay if the policy says nothing."""
    skew_us: int = 0
    """How far the clocks of brokers are apart."""
    records: dict[int, LifeRecord] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    """Bytes that were sent to each ledger."""
    dropped: set[int] = field(default_factory=set)
    """Offsets that compaction has left out."""
    dropped_us: dict[int, int] = field(default_factory=dict)
    """When it did, by the latest clock."""
    highest_start: int = 0
    """The highest offset at which the topic ever began: what is below may have been passed over,
    also if it was restored later."""
    erasures: list[Erased] = field(default_factory=list)
    repeating: set[int] = field(default_factory=set)
    """Erasures that are done again, for what was restored."""
    policies: list[tuple[Policy, float | None]] = field(default_factory=list)
    """Each with the time until which a broker may apply it."""

    def set_policy(self, policy: Policy, now: float) -> None:
        """A policy that may be in force from now on, instead of the others."""
        end = now + _STALE_SECONDS
        self.policies = [
            (each, end if until is None else until)
            for each, until in self.policies
            if each != policy and (until is None or now <= until)
        ]
        self.policies.append((policy, None))

    def in_force(self, now: float) -> list[Policy]:
        return [policy for policy, until in self.policies if until is None or now <= until]

    def within(self, first: int, last: int) -> Iterator[tuple[int, LifeRecord]]:
        for offset in range(first, last + 1):
            if offset in self.records:
                yield offset, self.records[offset]

    # ---- what may go ----

    def may_leave(
        self,
        ref: LedgerRef,
        kept: Iterable[LedgerRef],
        policy: Policy,
        wall_us: int,
        consumed: Callable[[int, LifeRecord], bool],
    ) -> bool:
        """Whether retention may remove a ledger. ``kept`` are it and all later ones."""
        assert ref.last_offset is not None
        records = list(self.within(ref.first_offset, ref.last_offset))
        if policy.retention_ms and all(
            wall_us - record.time_us > policy.retention_ms * 1000 for _, record in records
        ):
            return True
        if policy.retention_bytes and self.bytes_of(kept) > policy.retention_bytes:
            return True
        return policy.delete_consumed and all(consumed(*each) for each in records)

    def bytes_of(self, kept: Iterable[LedgerRef]) -> int:
        """The size of ledgers, with what is under way."""
        return sum(max(ref.bytes, self.sent.get(ref.id, 0)) for ref in kept)

    def may_lose_entries(
        self,
        ref: LedgerRef,
        newer: Sequence[LedgerRef],
        policy: Policy,
        wall_us: int,
        consumed: Callable[[int, LifeRecord], bool],
    ) -> bool:
        """Whether the entries of a tiered ledger may be deleted."""
        assert ref.last_offset is not None
        records = list(self.within(ref.first_offset, ref.last_offset))
        kept_us = policy.local_retention_ms * 1000 or self.local_seconds * 1e6
        old = all(wall_us - record.time_us >= kept_us for _, record in records)
        if old and self.bytes_of(newer) >= policy.local_retention_bytes:
            return True
        if policy.local_delete_consumed and all(consumed(*each) for each in records):
            return True
        return bool(self.erasures)

    # ---- keys ----

    def is_erased(self, offset: int, record: LifeRecord) -> bool:
        """Whether somebody asked to erase it, so that it may have lost its key."""
        return any(each.key == record.key for each in self.erasures)

    def must_be_erased(self, offset: int, epoch: int, asked: float = 1e9) -> bool:
        """Whether an owner of this epoch, asked at this time, must not show the record."""
        record = self.records.get(offset)
        return record is not None and any(
            each.until is not None
            and each.number not in self.repeating
            and each.key == record.key
            and offset < each.until
            and epoch >= each.epoch
            and asked > each.done
            for each in self.erasures
        )

    def newest_of_keys(self, start: int, end: int) -> dict[bytes, int]:
        """The offset of the newest record of each key; erased keys are left out."""
        newest: dict[bytes, int] = {}
        for offset in sorted(self.records):
            record = self.records[offset]
            if start <= offset < end and record.key and not self.is_erased(offset, record):
                newest[record.key] = offset
        return newest

    def newest_is_left(self, start: int, end: int) -> str | None:
        """What is wrong with what compaction has left of the offsets in this range."""
        newest = self.newest_of_keys(start, end)
        for offset, record in sorted(self.records.items()):
            last = newest.get(record.key or b"")
            if not start <= offset < end or last is None or last not in self.dropped:
                continue
            if not self.records[last].tombstone:
                return f"the newest record of {record.key!r}, at {last}, was compacted away"
            if offset not in self.dropped:
                return (
                    f"{record.key!r} was deleted at {last}, the tombstone is gone, and its record "
                    f"at {offset} is there"
                )
        return None

    def may_drop(self, offset: int, wall_us: int, now: float) -> bool:
        """Whether compaction may leave out a record."""
        record = self.records[offset]
        compacting = [policy for policy in self.in_force(now) if policy.compact]
        if record.key is None or not compacting:
            return False
        if any(later.key == record.key for at, later in self.records.items() if at > offset):
            return True
        since_us = max(
            (us for at, us in self.dropped_us.items() if self.records[at].key == record.key),
            default=0,
        )
        return record.tombstone and any(
            policy.tombstone_retention_ms
            and max(record.time_us, since_us - self.skew_us) + policy.tombstone_retention_ms * 1000
            <= wall_us
            for policy in compacting
        )
