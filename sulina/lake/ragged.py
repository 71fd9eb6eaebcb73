"""Numpy helpers for runs of different lengths: work on all frames at once instead of on each."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SHORT: Final = 24
"""Below this mean length, copying byte by byte in numpy is faster than a slice for each run."""


def padded(lengths: Ints) -> Ints:
    """Each length rounded up to the next 8-byte boundary."""
    return (lengths + 7) & ~np.int64(7)


def starts_of(lengths: Ints) -> Ints:
    """Where each run starts if they stand one after the other, and last where all end."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def runs(starts: Ints, lengths: Ints) -> Ints:
    """The positions of all runs one after the other: start, start + 1, ... of each."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def copy_runs(out: Bytes, at: Ints, source: Bytes, starts: Ints, lengths: Ints) -> None:
    """Copy each run of ``source`` to its place in ``out``."""
    total = int(lengths.sum())
    if total < _SHORT * len(lengths):
        out[runs(at, lengths)] = source[runs(starts, lengths)]
        return
    target, data = out.data, source.data
    for place, start, length in zip(at.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        target[place : place + length] = data[start : start + length]


def join_runs(source: Bytes, starts: Ints, lengths: Ints) -> Bytes:
    """All runs of ``source``, one after the other."""
    if len(starts) == 1:
        return source[int(starts[0]) : int(starts[0] + lengths[0])]
    at = starts_of(lengths)
    out = np.empty(int(at[-1]), np.uint8)
    copy_runs(out, at[:-1], source, starts, lengths)
    return out
