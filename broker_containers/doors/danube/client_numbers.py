"""The numbers by which stock clients name their producers and consumers.

They follow from the names, so every broker gives the same number, before and after a restart.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_POSITIVE: Final = (1 << 63) - 1
"""Clients in Java have signed numbers only."""


def producer_number(topic: str, name: str) -> int:
    """The number of a producer at a topic."""
    return _number("producer", topic, name)


def consumer_number(topic: str, subscription: str, name: str) -> int:
    """The number of a consumer of a subscription."""
    return _number("consumer", topic, subscription, name)


def _number(*parts: str) -> int:
    text = "\0".join(parts).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") & _POSITIVE or 1
