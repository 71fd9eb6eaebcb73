"""Bytes and numbers at many positions at once, eight bytes at a time. No loop over positions.

``Octets`` holds bytes with room before and after them, so that a word can be read at any position,
even a wrong one within them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sulina.lake.runs import Bytes, Ints

Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

ROOM: Final = 32
"""Bytes before and after the data, unless a reader needs more. Positions count from its start."""


def word(number: int) -> np.uint64:
    """A constant in the type of the words, so that numpy keeps it."""
    return np.uint64(number)


_HIGH: Final = word(0x8080808080808080)
_ONE: Final = word(1)


class Octets:
    """Bytes that are read at many positions."""

    __slots__ = ("data", "padded", "room", "words")

    def __init__(self, data: Bytes, room: int = ROOM) -> None:
        self.room = room
        self.padded = np.zeros(len(data) + 2 * room, np.uint8)
        self.padded[room : room + len(data)] = data
        self.data = self.padded[room : room + len(data)]
        self.words: Words = np.ndarray(
            (len(self.padded) - 7,), "<u8", self.padded.data, offset=0, strides=(1,)
        )

    def at(self, positions: Ints) -> Words:
        """The eight bytes from each position on, which is within the data or near it."""
        found: Words = self.words[positions + self.room]  # ``take`` would copy all words
        return found

    def byte(self, positions: Ints) -> Bytes:
        """The byte at each position."""
        found: Bytes = self.padded.take(positions + self.room, mode="clip")
        return found

    def equal(self, positions: Ints, literal: bytes) -> Flags:
        """Where ``literal`` is; there must be room for it before and after the data."""
        same: Flags | None = None
        places = positions + self.room
        # The last word of a long literal overlaps the one before: then it needs no mask.
        last = max(len(literal) - 8, 0)
        for start in (*range(0, last, 8), last) if literal else ():
            piece = literal[start : start + 8]
            found = self.words[places + start if start else places]
            if len(piece) < 8:
                found = found & word((1 << 8 * len(piece)) - 1)
            here = found == word(int.from_bytes(piece, "little"))
            same = here if same is None else same & here
        return np.ones(len(positions), np.bool_) if same is None else same


def varints(octets: Octets, positions: Ints) -> tuple[Words, Ints, Flags]:
    """The variable-length numbers at ``positions``, their lengths, and which are valid."""
    words = octets.at(positions)
    if not (words & word(0x80)).any():  # each has one byte
        size = len(positions)
        return words & word(0x7F), np.ones(size, np.int64), np.ones(size, np.bool_)
    stops = ~words & _HIGH
    last = stops & (~stops + _ONE)
    below = last - _ONE
    lengths = ((np.bitwise_count(below) + np.uint8(1)) >> np.uint8(3)).astype(np.int64)
    values = _join_sevens(words & below)
    valid = np.ones(len(positions), np.bool_)
    long = np.flatnonzero(stops == 0)
    if len(long):
        values[long], lengths[long], valid[long] = _long_varints(octets, positions[long])
    return values, lengths, valid


def _join_sevens(words: Words) -> Words:
    """Words without the highest bit of each byte."""
    words = (words & word(0x007F007F007F007F)) | ((words & word(0x7F007F007F007F00)) >> _ONE)
    words = (words & word(0x00003FFF00003FFF)) | ((words & word(0x3FFF00003FFF0000)) >> word(2))
    return (words & word(0x0FFFFFFF)) | ((words & word(0x0FFFFFFF00000000)) >> word(4))


def _long_varints(octets: Octets, positions: Ints) -> tuple[Words, Ints, Flags]:
    """Numbers of nine or ten bytes."""
    low = _join_sevens(octets.at(positions) & word(0x7F7F7F7F7F7F7F7F))
    rest = octets.at(positions + 8)
    more = (rest & word(0x80)) != 0
    tenth = (rest >> word(8)) & word(0xFF)
    values = low | ((rest & word(0x7F)) << word(56))
    values |= np.where(more, tenth << word(63), word(0))
    return values, np.where(more, 10, 9), ~more | (tenth <= _ONE)


def zigzag(words: Words) -> Ints:
    """Signed numbers as Avro and Protobuf's sint types encode them."""
    signed: Ints = ((words >> _ONE) ^ (~(words & _ONE) + _ONE)).view(np.int64)
    return signed
