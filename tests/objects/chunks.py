"""Objects to put: bytes that differ, in chunks of any size."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator


def some_bytes(length: int, seed: int = 0) -> bytes:
    """The same for the same seed."""
    return random.Random(seed).randbytes(length)


async def chunks_of(data: bytes, size: int = 1 << 20) -> AsyncIterator[bytes]:
    """``data``, cut up."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
