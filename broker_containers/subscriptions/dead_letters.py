"""Converts records that failed too often, or expired, into records of the dead-letter topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame, producer_id


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Records that failed too often, or expired, and go to the dead-letter topic."""

    base: int
    mask: int
    attempt: int
    reason: str
    expired: bool = False
    """Nobody took them in time, rather than failing."""


def dead_letter_frame(
    letter: DeadLetter,
    frame: CachedFrame,
    topic: str,
    subscription: str,
    broker_id: str,
    sequence: int,
    now_us: int,
) -> bytes:
    """A frame with the failed records' payloads and keys, and attributes that name their origin.

    Expired records get the publish time ``now_us``: with theirs they might expire there at once.
    """
    opened = Frame(frame.data)
    chosen = selection.indices(letter.mask)
    times = opened.times
    origin = {
        "x-original-topic": topic,
        "x-original-subscription": subscription,
        "x-original-broker-addr": broker_id,
        **({} if letter.expired else {"x-poison-policy": "dead_letter"}),
        "x-delivery-attempt": str(letter.attempt),
        "x-failure-reason": letter.reason,
    }
    attributes = [
        {
            **(opened.attributes[index] if opened.attributes else {}),
            **origin,
            "x-original-producer-id": str(producer_id(opened.producers[index])),
            "x-original-topic-offset": str(letter.base + index),
            **({"x-original-publish-time": str(times[index])} if letter.expired else {}),
        }
        for index in chosen
    ]
    keys: Sequence[bytes | None] | None = opened.keys
    return encode_frame(
        Origin(
            dead_letter_producer(topic, subscription),
            opened.header.schema_id,
            opened.header.schema_version,
        ),
        sequence,
        [opened.payloads[index] for index in chosen],
        now_us if letter.expired else [times[index] for index in chosen],
        keys=[keys[index] for index in chosen] if keys else None,
        attributes=attributes,
    )


def dead_letter_producer(topic: str, subscription: str) -> str:
    """The name under which a subscription publishes its dead letters."""
    return f"dead-letters:{topic}:{subscription}"[:255]
