"""Converts between messages of the binary protocol and the types of ``sulina.model``."""

from __future__ import annotations

from collections.abc import Sequence

from sulina.errors import ProtocolError, Refused
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection

_MOST_SELECTIONS = 4096

_TYPES = {
    pb.EXCLUSIVE: SubscriptionType.EXCLUSIVE,
    pb.SHARED: SubscriptionType.SHARED,
    pb.FAILOVER: SubscriptionType.FAILOVER,
    pb.KEY_SHARED: SubscriptionType.KEY_SHARED,
}
_POISON = {
    pb.FailurePolicy.BLOCK: Poison.BLOCK,
    pb.FailurePolicy.HALT: Poison.HALT,
    pb.FailurePolicy.DROP: Poison.DROP,
    pb.FailurePolicy.DEAD_LETTER: Poison.DEAD_LETTER,
}


def delivery(value: pb.Delivery.ValueType) -> Delivery | None:
    """None if the client leaves it open: existing topics keep theirs, new ones are reliable."""
    return {pb.RELIABLE: Delivery.RELIABLE, pb.NON_RELIABLE: Delivery.NON_RELIABLE}.get(value)


def to_delivery(value: Delivery) -> pb.Delivery.ValueType:
    return pb.RELIABLE if value is Delivery.RELIABLE else pb.NON_RELIABLE


def subscription_type(value: pb.SubscriptionType.ValueType) -> SubscriptionType:
    found = _TYPES.get(value)
    if found is None:
        raise Refused(f"subscription type {value} is unknown: update the broker")
    return found


def start(value: pb.Start) -> Start:
    match value.WhichOneof("at"):
        case "earliest":
            return Start.earliest()
        case "offset":
            return Start.offset(value.offset)
        case "time_us":
            return Start.time(value.time_us)
        case _:
            return Start.latest()


def failure_policy(value: pb.FailurePolicy) -> FailurePolicy:
    poison = _POISON.get(value.poison)
    if poison is None:
        raise Refused(f"poison policy {value.poison} is unknown: update the broker")
    return FailurePolicy(
        max_redelivery_count=value.max_redelivery_count,
        ack_timeout_ms=value.ack_timeout_ms,
        base_redelivery_delay_ms=value.base_redelivery_delay_ms,
        max_redelivery_delay_ms=value.max_redelivery_delay_ms,
        backoff=Backoff.FIXED if value.fixed_backoff else Backoff.EXPONENTIAL,
        poison=poison,
        dead_letter_topic=value.dead_letter_topic,
        dead_letter_expired=value.dead_letter_expired,
    )


Chosen = tuple[int, int, int | None]
"""First offset, last offset, and the mask that selects records between them."""


def all_chosen(values: Sequence[pb.Selection]) -> list[Chosen]:
    """The selections of one command, all checked before any takes effect.

    Raises ``ProtocolError`` if there are more than clients send in one command: they are handled
    without interruption, and other clients have to wait.
    """
    if len(values) > _MOST_SELECTIONS:
        raise ProtocolError(
            f"a command may have {_MOST_SELECTIONS} selections, this one has {len(values)}"
        )
    return [_chosen(value) for value in values]


def _chosen(value: pb.Selection) -> Chosen:
    if value.first < 0 or value.last < value.first:
        raise Refused(f"offsets {value.first} to {value.last} are not a range")
    return value.first, value.last, selection.from_bytes(value.mask) if value.mask else None
