"""Numpy helpers for runs of different lengths, which process all frames at once."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_T = TypeVar("_T", bound=np.generic)

_SHORT: Final = 24
"""Below this mean length, copying byte by byte in numpy is faster than a slice for each run."""


def padded(lengths: Ints) -> Ints:
    """Each length rounded up to the next 8-byte boundary."""
    return (lengths + 7) & ~np.int64(7)


def starts_of(lengths: Ints) -> Ints:
    """The start of each consecutive run, followed by the end of the last."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def runs(starts: Ints, lengths: Ints) -> Ints:
    """The positions of all runs, concatenated: start, start + 1, ... of each."""
    if _all_one(lengths):
        return starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def spread(values: NDArray[_T], counts: Ints) -> NDArray[_T]:
    """Each value repeated by its count. Do not modify the result: it may be ``values``."""
    return values if _all_one(counts) else np.repeat(values, counts)


def _all_one(counts: Ints) -> bool:
    """Whether every frame has one record, which allows shortcuts."""
    return bool((counts == 1).all())


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
    """All runs of ``source``, concatenated; they are ascending and do not overlap."""
    # For Arrow, runs and the gaps between them are the values of one array: taking every other
    # of them copies natively.
    bounds = np.stack([starts, starts + lengths], axis=1).ravel()
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(source)]
    values = pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)
    taken = values.take(pa.array(np.arange(0, len(bounds), 2)))
    return np.frombuffer(taken.buffers()[2] or b"", np.uint8)
