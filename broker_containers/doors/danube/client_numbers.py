"""The numbers that identify producers and consumers in Danube's protocol.

They are derived from the names, so all brokers assign the same numbers, also after a restart.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_POSITIVE: Final = (1 << 63) - 1
"""Java clients have only signed numbers."""


def producer_number(topic: str, name: str) -> int:
    """The number of a producer on a topic."""
    return _number("producer", topic, name)


def consumer_number(topic: str, subscription: str, name: str) -> int:
    """The number of a consumer of a subscription."""
    return _number("consumer", topic, subscription, name)


def _number(*parts: str) -> int:
    text = "\0".join(parts).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") & _POSITIVE or 1
