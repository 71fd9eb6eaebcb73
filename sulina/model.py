"""Words that producers, consumers and brokers share: delivery, subscription types, policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from sulina.errors import Refused


class Delivery(StrEnum):
    """What a topic promises."""

    RELIABLE = "reliable"
    """Stored before it is acknowledged; delivered at least once."""
    NON_RELIABLE = "non_reliable"
    """Never stored; delivered at most once, to who is there."""


class SubscriptionType(StrEnum):
    """How a subscription spreads records over its consumers."""

    EXCLUSIVE = "exclusive"
    """One consumer, in order."""
    SHARED = "shared"
    """Any number of consumers, in turns; no order."""
    FAILOVER = "failover"
    """One active consumer, in order; the others stand by."""
    KEY_SHARED = "key_shared"
    """Any number of consumers; records of one key go to one consumer, in order."""


class Backoff(StrEnum):
    """How the delay before a redelivery grows."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"


class Poison(StrEnum):
    """What happens to a record that failed too often."""

    BLOCK = "block"
    """It stays, and the subscription keeps redelivering it at the longest delay."""
    DROP = "drop"
    """It is acknowledged on the consumer's behalf."""
    DEAD_LETTER = "dead_letter"
    """It is published to the dead-letter topic, then acknowledged."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What a subscription does with records that are not acknowledged."""

    max_redelivery_count: int = 5
    ack_timeout_ms: int = 30_000
    """A delivery not acknowledged for so long is delivered again; 0 waits for ever."""
    base_redelivery_delay_ms: int = 1_000
    max_redelivery_delay_ms: int = 60_000
    backoff: Backoff = Backoff.EXPONENTIAL
    poison: Poison = Poison.BLOCK
    dead_letter_topic: str = ""

    def __post_init__(self) -> None:
        if self.poison is Poison.DEAD_LETTER and not self.dead_letter_topic:
            raise Refused("a dead-letter policy needs a topic: set dead_letter_topic")
        times = self.ack_timeout_ms, self.base_redelivery_delay_ms, self.max_redelivery_delay_ms
        if min(self.max_redelivery_count, *times) < 0:
            raise Refused("counts and times of a failure policy can't be negative")
        if self.base_redelivery_delay_ms > self.max_redelivery_delay_ms:
            raise Refused("base_redelivery_delay_ms is larger than max_redelivery_delay_ms")

    def delay_ms(self, attempt: int, requested_ms: int = 0) -> int:
        """How long to wait before a record that was delivered ``attempt`` times comes again."""
        delay = self.base_redelivery_delay_ms
        if self.backoff is Backoff.EXPONENTIAL:
            delay <<= min(max(attempt, 1) - 1, 32)
        return min(max(delay, requested_ms), self.max_redelivery_delay_ms)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new subscription, a reader or a seek begins."""

    kind: str
    value: int = field(default=0)

    @classmethod
    def latest(cls) -> Self:
        """Only what is published from now on."""
        return cls("latest")

    @classmethod
    def earliest(cls) -> Self:
        """The oldest record that is still kept."""
        return cls("earliest")

    @classmethod
    def offset(cls, offset: int) -> Self:
        """The record at ``offset``, or the first kept one after it."""
        return cls("offset", offset)

    @classmethod
    def time(cls, microseconds: int) -> Self:
        """The first record published at this time (microseconds since 1970) or later."""
        return cls("time", microseconds)
