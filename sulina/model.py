"""Types that clients and brokers share: delivery, subscription types, actions, positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from sulina.errors import Refused

EVERYTHING: Final = "*"
"""The scope of a right that holds everywhere."""


class Delivery(StrEnum):
    """What a topic guarantees."""

    RELIABLE = "reliable"
    """Records are stored durably before they are acknowledged, and delivered at least once."""
    NON_RELIABLE = "non_reliable"
    """Records are never stored, and delivered at most once to connected consumers."""


class SubscriptionType(StrEnum):
    """How a subscription distributes records over its consumers."""

    EXCLUSIVE = "exclusive"
    """One consumer receives all records, in order."""
    SHARED = "shared"
    """Records are distributed over any number of consumers, without order."""
    FAILOVER = "failover"
    """One consumer per partition receives all records, in order; the others are on standby."""
    KEY_SHARED = "key_shared"
    """Any number of consumers; all records of one key go to one of them, in order."""


class Action(StrEnum):
    """What a grant allows."""

    LOOKUP = "lookup"
    """Look up and describe a topic; every other grant on a topic includes this."""
    PRODUCE = "produce"
    CONSUME = "consume"
    TOPICS = "topics"
    """Create, delete, move and configure topics, without reading or publishing."""
    NAMESPACES = "namespaces"
    """Create, delete and configure namespaces, and list their topics."""
    SCHEMAS = "schemas"
    """Register and change the schemas of a subject."""
    BROKERS = "brokers"
    """List, drain and activate brokers."""
    CLUSTER = "cluster"
    """Manage the whole cluster: balance, settings, tokens and rights."""
    ADMIN = "admin"
    """All of the above."""


class Backoff(StrEnum):
    """How the delay before redeliveries grows."""

    EXPONENTIAL = "exponential"
    """It doubles with each attempt, up to the maximum."""
    FIXED = "fixed"
    """It is always the base delay."""


class Poison(StrEnum):
    """What happens to a record that failed more than ``max_redelivery_count`` times."""

    BLOCK = "block"
    """It is redelivered indefinitely, at the maximum delay; later ones wait where order counts."""
    HALT = "halt"
    """It is not delivered again, and later ones wait, until somebody acts: by acknowledging it,
    changing the policy or the position. This is what ``Block`` means to Danube's tools."""
    DROP = "drop"
    """It is acknowledged on behalf of the consumer, and thereby lost."""
    DEAD_LETTER = "dead_letter"
    """It is published to the dead-letter topic, then acknowledged."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What a subscription does with records that are not acknowledged or are rejected.

    Raises ``Refused`` if the values contradict each other.

    >>> policy = FailurePolicy(poison=Poison.DEAD_LETTER, dead_letter_topic="/default/failed")
    """

    max_redelivery_count: int = 5
    """Redeliveries before ``poison`` applies."""
    ack_timeout_ms: int = 30_000
    """A record not acknowledged within this time is delivered again; 0 disables the timeout."""
    base_redelivery_delay_ms: int = 1_000
    """The delay before the first redelivery."""
    max_redelivery_delay_ms: int = 60_000
    """The maximum delay before a redelivery."""
    backoff: Backoff = Backoff.EXPONENTIAL
    poison: Poison = Poison.BLOCK
    dead_letter_topic: str = ""
    """Where ``Poison.DEAD_LETTER`` publishes."""
    dead_letter_expired: bool = False
    """Publish records there too that expired before anybody took them."""

    def __post_init__(self) -> None:
        wanted = self.poison is Poison.DEAD_LETTER or self.dead_letter_expired
        if wanted and not self.dead_letter_topic:
            raise Refused("a dead-letter policy needs a topic: set dead_letter_topic")
        times = self.ack_timeout_ms, self.base_redelivery_delay_ms, self.max_redelivery_delay_ms
        if min(self.max_redelivery_count, *times) < 0:
            raise Refused("counts and times of a failure policy cannot be negative: use 0 or more")
        if self.base_redelivery_delay_ms > self.max_redelivery_delay_ms:
            raise Refused(
                "base_redelivery_delay_ms is larger than max_redelivery_delay_ms: lower it"
            )

    def delay_ms(self, attempt: int, requested_ms: int = 0) -> int:
        """The delay before redelivering a record that was delivered ``attempt`` times."""
        delay = self.base_redelivery_delay_ms
        if self.backoff is Backoff.EXPONENTIAL:
            delay <<= min(max(attempt, 1) - 1, 32)
        return min(max(delay, requested_ms), self.max_redelivery_delay_ms)


@dataclass(frozen=True, slots=True)
class Start:
    """A position in a topic, for new subscriptions, ``Client.read`` and ``Consumer.seek``.

    Create it with one of the class methods.
    """

    kind: str
    value: int = field(default=0)

    @classmethod
    def latest(cls) -> Self:
        """The end of the topic: only records published from now on."""
        return cls("latest")

    @classmethod
    def earliest(cls) -> Self:
        """The oldest record that is still stored."""
        return cls("earliest")

    @classmethod
    def offset(cls, offset: int) -> Self:
        """The record at ``offset``, or the first stored one after it."""
        return cls("offset", offset)

    @classmethod
    def time(cls, microseconds: int) -> Self:
        """The first record published at this time or later (microseconds since 1970, UTC)."""
        return cls("time", microseconds)
