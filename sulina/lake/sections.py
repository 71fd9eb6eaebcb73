"""The sections of a frame, written for many frames at once into one buffer.

A section knows how many bytes it takes in each frame (0 where a frame does not have it) and fills
them in, given where it starts in each. The caller adds the padding, which is zero.
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
        """Bytes in each frame."""
        ...

    def fill(self, out: Bytes, at: Ints) -> None:
        """Write the section of each frame, which starts ``at`` there."""
        ...


@dataclass(frozen=True, slots=True)
class CopiedRuns:
    """Bytes as they stand in ``data``."""

    data: Bytes
    starts: Ints
    lengths: Ints

    def fill(self, out: Bytes, at: Ints) -> None:
        copy_runs(out, at, self.data, self.starts, self.lengths)


@dataclass(frozen=True, slots=True)
class Int32s:
    """A number for each record of the frames that have the section."""

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
    """Offsets of values, from 0 in each frame; ``offsets`` are those over all frames."""

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
    """A bit for each record."""

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
    """The two sections of values with a length: their offsets and their bytes."""
    starts = offsets[firsts]
    lengths = np.where(has, offsets[firsts + counts] - starts, 0)
    return Offsets(offsets, firsts, counts, has), CopiedRuns(data, starts, lengths)


def total(sections: list[Section]) -> Ints:
    """Bytes of all sections in each frame, padding included."""
    lengths: Ints = np.sum([padded(section.lengths) for section in sections], axis=0)
    return lengths
