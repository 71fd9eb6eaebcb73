"""Randomness from the operating system."""

from __future__ import annotations

import random


def real_random() -> random.Random:
    """A source that nobody can predict; a simulation passes a seeded one instead."""
    return random.SystemRandom()
