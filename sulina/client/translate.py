"""Translates between the model's types and the binary protocol."""

from __future__ import annotations

from typing import Final

from sulina.errors import Refused
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.wire import commands_pb2 as pb

_DELIVERY: Final = {
    None: pb.DELIVERY_DEFAULT,
    Delivery.RELIABLE: pb.RELIABLE,
    Delivery.NON_RELIABLE: pb.NON_RELIABLE,
}
_TYPE: Final = {
    SubscriptionType.EXCLUSIVE: pb.EXCLUSIVE,
    SubscriptionType.SHARED: pb.SHARED,
    SubscriptionType.FAILOVER: pb.FAILOVER,
    SubscriptionType.KEY_SHARED: pb.KEY_SHARED,
}
_POISON: Final = {
    Poison.BLOCK: pb.FailurePolicy.BLOCK,
    Poison.HALT: pb.FailurePolicy.HALT,
    Poison.DROP: pb.FailurePolicy.DROP,
    Poison.DEAD_LETTER: pb.FailurePolicy.DEAD_LETTER,
}


def delivery_to_wire(delivery: Delivery | None) -> pb.Delivery.ValueType:
    return _DELIVERY[delivery]


def delivery_from_wire(delivery: pb.Delivery.ValueType) -> Delivery:
    return Delivery.NON_RELIABLE if delivery == pb.NON_RELIABLE else Delivery.RELIABLE


def type_to_wire(type_: SubscriptionType) -> pb.SubscriptionType.ValueType:
    return _TYPE[type_]


def start_to_wire(start: Start) -> pb.Start:
    if start.kind == "latest":
        return pb.Start(latest=True)
    if start.kind == "earliest":
        return pb.Start(earliest=True)
    if start.kind == "offset":
        return pb.Start(offset=start.value)
    if start.kind == "time":
        return pb.Start(time_us=start.value)
    raise Refused(f"start must be latest, earliest, an offset or a time, not {start.kind!r}")


def policy_to_wire(policy: FailurePolicy | None) -> pb.FailurePolicy | None:
    if policy is None:
        return None
    return pb.FailurePolicy(
        max_redelivery_count=policy.max_redelivery_count,
        ack_timeout_ms=policy.ack_timeout_ms,
        base_redelivery_delay_ms=policy.base_redelivery_delay_ms,
        max_redelivery_delay_ms=policy.max_redelivery_delay_ms,
        fixed_backoff=policy.backoff is Backoff.FIXED,
        poison=_POISON[policy.poison],
        dead_letter_topic=policy.dead_letter_topic,
        dead_letter_expired=policy.dead_letter_expired,
    )
