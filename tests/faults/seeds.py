"""Randomness that can be repeated: ``SULINA_SEED`` sets it, and every failure says which it was."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded() -> Iterator[random.Random]:
    """A source of randomness; the seed is printed, and noted on whatever error comes out."""
    seed = int(os.environ.get("SULINA_SEED", random.randrange(1 << 32)))
    sys.stdout.write(f"SULINA_SEED={seed}\n")
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"repeat it with SULINA_SEED={seed}")
        raise


def number_from_environment(name: str, default: int) -> int:
    """How much of something to do: set it higher for a long run."""
    return int(os.environ.get(name, default))
