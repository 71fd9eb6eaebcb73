"""128-bit digests of keys, for a whole column at once.

Two records have the same key if their digests are equal: with 100 million keys, the probability
that any two differ and collide is below 10 to the power of -22. The digest mixes words with
multipliers from a secret seed, so that nobody can choose keys that collide; it is not stored, and
two runs need not use the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sulina.lake.buffers import octets, offsets

Words = NDArray[np.uint64]
SEED_SIZE: Final = 64
_WORD: Final = 8
_HALVES: Final = 2
_SHIFTS: Final = (np.uint64(32), np.uint64(29), np.uint64(47))


@dataclass(frozen=True, slots=True)
class KeyDigests:
    """The digest of each key, as two halves."""

    high: Words
    low: Words


class KeyHasher:
    """Computes digests. ``seed`` has ``SEED_SIZE`` random bytes."""

    def __init__(self, seed: bytes) -> None:
        assert len(seed) == SEED_SIZE
        words = np.frombuffer(seed, "<u8").astype(np.uint64)
        self._begins = words[:2]
        # A factor must be odd, so that multiplying loses nothing.
        self._factors = words[2:] | np.uint64(1)

    def digests(self, keys: pa.Array) -> KeyDigests:
        """The digests of a binary array without nulls."""
        bounds = offsets(keys).astype(np.int64)
        starts, lengths = bounds[:-1], np.diff(bounds)
        words = _Words(octets(keys))
        sizes = lengths.astype(np.uint64)
        high, low = (
            sizes * self._factors[3 * half] ^ self._begins[half] for half in range(_HALVES)
        )
        at = 0
        left = np.flatnonzero(lengths > 0)
        # One round for each word of the longest key; every round has only keys that are so long.
        while len(left):
            some = left if len(left) < len(starts) else slice(None)
            word = words.at(starts[some] + at, np.minimum(lengths[some] - at, _WORD))
            high[some] = self._mixed(0, high[some] ^ word)
            low[some] = self._mixed(1, low[some] ^ word)
            at += _WORD
            left = left[lengths[left] > at]
        return KeyDigests(self._finished(0, high), self._finished(1, low))

    def _mixed(self, half: int, state: Words) -> Words:
        state *= self._factors[3 * half + 1]
        state ^= state >> _SHIFTS[0]
        state *= self._factors[3 * half + 2]
        state ^= state >> _SHIFTS[1]
        return state

    def _finished(self, half: int, state: Words) -> Words:
        state *= self._factors[3 * half + 1]
        state ^= state >> _SHIFTS[2]
        state *= self._factors[3 * half]
        state ^= state >> _SHIFTS[0]
        return state


class _Words:
    """Reads up to eight bytes at any place as a number."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        whole = np.zeros(len(data) + _WORD, np.uint8)
        whole[: len(data)] = data
        # A word from each byte on: they overlap.
        self._words: Words = np.ndarray((len(data) + 1,), "<u8", whole.data, strides=(1,))

    def at(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
        unused = (np.uint64(_WORD) - lengths.astype(np.uint64)) * np.uint64(8)
        found: Words = (self._words[starts] << unused) >> unused
        return found
