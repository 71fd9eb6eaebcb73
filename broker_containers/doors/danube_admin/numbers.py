"""Brokers as numbers, where Danube's protocol has no field for an id.

A broker whose id is a number has that number. Any other number is derived from the id, so that it
is the same on every broker and after every restart.
"""

from __future__ import annotations

import hashlib
from typing import Final

_LARGEST: Final = (1 << 64) - 1


def number_of(broker: str) -> int:
    """The number of a broker; never 0, which means none."""
    if broker.isascii() and broker.isdecimal() and 0 < int(broker) <= _LARGEST:
        return int(broker)
    return int.from_bytes(hashlib.sha256(broker.encode()).digest()[:8], "big") or 1
