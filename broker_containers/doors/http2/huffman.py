"""Decodes the Huffman code of HPACK (RFC 7541, appendix B).

The code is canonical, so the lengths of the codes define it. This side never encodes with it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_LENGTHS: Final = (
    "13 23 28x7 24 30 28x2 30 28x8 30 28x9 6 10x2 12 13 6 8 11 10x2 8 11 8 6x3 5x3 6x7 7 8 15 6 12 "
    "10 13 6 7x22 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6x3 5 7x2 6x3 5 6 7 6 5x2 6 7x5 15 11 14 13 28 "
    "20 22 20x2 22x3 23 22 23x5 24 23 24x2 22 23 24 23x4 21 22 23 22 23x2 24 22 21 20 22x2 23x2 21 "
    "23 22x2 24 21 22 23x2 21x2 22 21 23 22 23x2 20 22x3 23 22x2 23 26x2 20 19 22 23 22 25 26x3 "
    "27x2 26 24 25 19 21 26 27x2 26 27 24 21x2 26x2 28 27x3 20 24 20 21 22 21x2 23 22x2 25x2 24x2 "
    "26 23 26 27 26x2 27x5 28 27x5 26 30"
)
"""Of the symbols 0 to 255 and the end of the string; ``28x7`` stands for seven times 28."""
_END: Final = 256
_LONGEST: Final = 30
_SHORT: Final = 8
_PADDING: Final = b"\xff" * 4
_MOST_REMEMBERED: Final = 64
"""Clients repeat short strings."""


def _codes() -> dict[tuple[int, int], int]:
    """Length and code -> symbol."""
    lengths: list[int] = []
    for part in _LENGTHS.split():
        bits, _, count = part.partition("x")
        lengths += [int(bits)] * int(count or 1)
    found: dict[tuple[int, int], int] = {}
    code, before = 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
        code <<= length - before
        before = length
        found[length, code] = symbol
        code += 1
    return found


_CODES: Final = _codes()
_LONG_LENGTHS: Final = sorted({length for length, _ in _CODES if length > _SHORT})


def _short() -> list[tuple[int, int] | None]:
    """For each byte, the length and symbol of the code that it begins with; None if longer."""
    found: list[tuple[int, int] | None] = [None] * (1 << _SHORT)
    for (length, code), symbol in _CODES.items():
        if length <= _SHORT:
            spare = _SHORT - length
            for rest in range(1 << spare):
                found[code << spare | rest] = length, symbol
    return found


_BY_BYTE: Final = _short()


def decode(data: bytes) -> bytes:
    """The text. Raises ``ValueError`` for what is not this code, or is padded wrongly."""
    return _remembered(data) if len(data) <= _MOST_REMEMBERED else _decoded(data)


def _decoded(data: bytes) -> bytes:
    left = 8 * len(data)
    bits = count = 0
    decoded = bytearray()
    for byte in data + _PADDING:
        bits = bits << 8 | byte
        count += 8
        while count >= _LONGEST:
            length, symbol = _BY_BYTE[bits >> (count - _SHORT)] or _long(bits, count)
            if length > left:
                ones = (1 << left) - 1
                if left > 7 or bits >> (count - left) != ones:
                    raise ValueError("the padding is not the beginning of the end code")
                return bytes(decoded)
            if symbol == _END:
                raise ValueError("the end of the string is encoded")
            decoded.append(symbol)
            left -= length
            count -= length
            bits &= (1 << count) - 1
    return bytes(decoded)


def _long(bits: int, count: int) -> tuple[int, int]:
    for length in _LONG_LENGTHS:
        symbol = _CODES.get((length, bits >> (count - length)))
        if symbol is not None:
            return length, symbol
    raise AssertionError("a code of 30 bits or less is complete")


_remembered = lru_cache(maxsize=1024)(_decoded)
