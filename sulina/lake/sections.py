"""The sections of frames, written into one buffer for many frames at once.

A section has a length for each frame (0 if the frame lacks it) and writes its bytes at the given
positions. The buffer must be zeroed, because padding is not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sulina.lake.runs import Bytes, Ints, copy_runs, padded, runs, starts_of


class Section(Protocol):
    """A part of a frame's body."""

    @property
    def lengths(self) -> Ints:
        """The section's size in each frame, in bytes."""
        ...

    def fill(self, out: Bytes, at: Ints) -> None:
        """Write the section of each frame to ``out``, starting at ``at``."""
        ...


@dataclass(frozen=True, slots=True)
class CopiedRuns:
    """Bytes copied from ``data``."""

    data: Bytes
    starts: Ints
    lengths: Ints

    def fill(self, out: Bytes, at: Ints) -> None:
        copy_runs(out, at, self.data, self.starts, self.lengths)


@dataclass(frozen=True, slots=True)
class Int32s:
    """One number per record of the frames that have the section."""

    numbers: Ints
    firsts: Ints
    counts: Ints

    @property
    def lengths(self) -> Ints:
        return 4 * self.counts

    def fill(self, out: Bytes, at: Ints) -> None:
        out.view("<i4")[runs(at // 4, self.counts)] = self.numbers[runs(self.firsts, self.counts)]


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of values, starting at 0 in each frame; ``offsets`` run over all frames."""

    offsets: Ints
    firsts: Ints
    counts: Ints
    has: NDArray[np.bool_]

    @property
    def lengths(self) -> Ints:
        lengths: Ints = np.where(self.has, 4 * (self.counts + 1), 0)
        return lengths

    def fill(self, out: Bytes, at: Ints) -> None:
        counts = np.where(self.has, self.counts + 1, 0)
        values = self.offsets[runs(self.firsts, counts)]
        values -= np.repeat(self.offsets[self.firsts], counts)
        out.view("<i4")[runs(at // 4, counts)] = values


@dataclass(frozen=True, slots=True)
class Bits:
    """One bit per record."""

    bits: NDArray[np.bool_]
    firsts: Ints
    counts: Ints

    @property
    def lengths(self) -> Ints:
        return (self.counts + 7) // 8

    def fill(self, out: Bytes, at: Ints) -> None:
        lengths = self.lengths
        places = starts_of(lengths)
        spread = np.zeros(8 * int(places[-1]), np.bool_)
        spread[runs(8 * places[:-1], self.counts)] = self.bits[runs(self.firsts, self.counts)]
        copy_runs(out, at, np.packbits(spread, bitorder="little"), places[:-1], lengths)


def values(
    offsets: Ints, data: Bytes, firsts: Ints, counts: Ints, has: NDArray[np.bool_]
) -> tuple[Section, CopiedRuns]:
    """The two sections of values of variable length: their offsets and their bytes."""
    starts = offsets[firsts]
    lengths = np.where(has, offsets[firsts + counts] - starts, 0)
    return Offsets(offsets, firsts, counts, has), CopiedRuns(data, starts, lengths)


def total(sections: list[Section]) -> Ints:
    """The size of all sections in each frame, including padding."""
    lengths: Ints = np.sum([padded(section.lengths) for section in sections], axis=0)
    return lengths
