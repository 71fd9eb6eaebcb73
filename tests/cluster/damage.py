"""Bits that turn over in the files of a storage node."""

from __future__ import annotations

import random

from tests.storage_service.process import StorageProcess

_PLACES = 200
"""One bit in about so many bytes: few records of a load are spared."""


def flip_bits(node: StorageProcess, rng: random.Random) -> int:
    """Turn bits all over the journal of a node that does not run; returns how many."""
    assert not node.running
    flipped = 0
    for path in node.journal_files():
        content = bytearray(path.read_bytes())
        end = len(content.rstrip(b"\0"))
        for _ in range(end // _PLACES):
            content[rng.randrange(end)] ^= 1 << rng.randrange(8)
            flipped += 1
        path.write_bytes(content)
    return flipped
