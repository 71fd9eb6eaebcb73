"""Header compression (RFC 7541): reads any header block, writes a small subset.

Clients repeat the same block for every call once their table has its entries, so what a block means
is remembered by its bytes. That holds only as long as the dynamic table does: any change of the
table forgets all of it, and a block that changes the table is never remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_containers.doors.http2 import huffman
from broker_containers.doors.http2.frames import ConnectionFault, ErrorCode

T = TypeVar("T")
Header = tuple[str, str]
TABLE_BYTES: Final = 4096
"""The largest dynamic table, on either side."""
_ENTRY_BYTES: Final = 32
"""What an entry counts besides its text."""
_MOST_REMEMBERED: Final = 64
_LONGEST_REMEMBERED: Final = 1024
_STATIC_LINES: Final = """\
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|
:status 200|:status 204|:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|
accept-encoding gzip, deflate|accept-language|accept-ranges|accept|access-control-allow-origin|age|
allow|authorization|cache-control|content-disposition|content-encoding|content-language|
content-length|content-location|content-range|content-type|cookie|date|etag|expect|expires|from|
host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|
location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|
www-authenticate"""
_STATIC: Final[tuple[Header, ...]] = tuple(
    (name, value)
    for name, _, value in (
        entry.partition(" ") for entry in _STATIC_LINES.replace("\n", "").split("|")
    )
)
_STATIC_NAMES: Final = {name: index for index, (name, _) in reversed([*enumerate(_STATIC, 1)])}
_STATIC_HEADERS: Final = {header: index for index, header in reversed([*enumerate(_STATIC, 1)])}


class HeaderDecoder(Generic[T]):
    """Reads the header blocks of one client, in the order in which they arrive.

    ``make`` turns headers into what :meth:`decode` returns. It must depend on them alone.
    """

    def __init__(self, make: Callable[[tuple[Header, ...]], T], list_bytes: int) -> None:
        """Blocks with more than ``list_bytes`` of headers are refused."""
        self._make = make
        self._list_bytes = list_bytes
        self._table: deque[Header] = deque()
        """The newest first."""
        self._bytes = 0
        self._limit = TABLE_BYTES
        self._remembered: dict[bytes, T] = {}

    def decode(self, block: bytes) -> T:
        """What the headers of a whole block mean. Raises ``ConnectionFault``."""
        found = self._remembered.get(block)
        if found is not None:
            return found
        try:
            headers, changed = self._read(block)
        except (IndexError, ValueError) as error:
            raise ConnectionFault(
                ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {error}"
            ) from None
        made = self._make(headers)
        if changed:
            self._remembered.clear()
        elif len(block) <= _LONGEST_REMEMBERED:
            if len(self._remembered) >= _MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[block] = made
        return made

    def _read(self, block: bytes) -> tuple[tuple[Header, ...], bool]:
        """The headers, and whether the table was changed."""
        headers: list[Header] = []
        at, total, changed = 0, 0, False
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                header = self._entry(index)
            elif first & 0xE0 == 0x20:
                if headers:
                    raise ValueError("the size of the table changes after a header")
                size, at = _integer(block, at, 5)
                if size > TABLE_BYTES:
                    raise ValueError("the table is larger than allowed")
                self._limit = size
                self._shrink(size)
                changed = True
                continue
            else:
                remember = first & 0x40
                index, at = _integer(block, at, 6 if remember else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                header = name, value
                if remember:
                    self._insert(header)
                    changed = True
            total += len(header[0]) + len(header[1]) + _ENTRY_BYTES
            if total > self._list_bytes:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    f"the headers of a request have more than {self._list_bytes} bytes",
                )
            headers.append(header)
        return tuple(headers), changed

    def _entry(self, index: int) -> Header:
        if not index:
            raise ValueError("there is no entry 0")
        if index <= len(_STATIC):
            return _STATIC[index - 1]
        return self._table[index - len(_STATIC) - 1]

    def _insert(self, header: Header) -> None:
        size = len(header[0]) + len(header[1]) + _ENTRY_BYTES
        self._shrink(self._limit - size)
        if size <= self._limit:
            self._table.appendleft(header)
            self._bytes += size

    def _shrink(self, limit: int) -> None:
        while self._table and self._bytes > limit:
            name, value = self._table.pop()
            self._bytes -= len(name) + len(value) + _ENTRY_BYTES


class HeaderEncoder:
    """Writes header blocks for one client.

    Few headers are repeated in nearly every response: each of them is entered into the client's
    table once, and is a single byte from then on. All others are written as they are.
    """

    def __init__(self) -> None:
        self._entered: list[Header] = []
        self._bytes = 0
        self._limit = TABLE_BYTES
        self._resized = False

    def limit_table(self, size: int) -> None:
        """The client's table has this size."""
        if size < self._bytes:
            # Empty it; the next block begins with that.
            self._entered.clear()
            self._bytes = 0
            self._limit = 0
            self._resized = True
        elif size < self._limit:
            self._limit = size
            self._resized = True

    def block(self, headers: tuple[Header, ...], repeated: frozenset[Header]) -> bytes:
        """A whole header block, which must be sent before the next one is written."""
        parts = []
        if self._resized:
            self._resized = False
            parts.append(_packed(self._limit, 5, 0x20))
        for header in headers:
            if header in _STATIC_HEADERS:
                parts.append(bytes([0x80 | _STATIC_HEADERS[header]]))
            elif header in repeated:
                parts.append(self._repeated(header))
            else:
                parts.append(_literal(header, 0x00, 4))
        return b"".join(parts)

    def _repeated(self, header: Header) -> bytes:
        if header in self._entered:
            newer = len(self._entered) - 1 - self._entered.index(header)
            return bytes([0x80 | (len(_STATIC) + 1 + newer)])
        size = len(header[0]) + len(header[1]) + _ENTRY_BYTES
        if self._bytes + size > self._limit:
            return _literal(header, 0x00, 4)
        self._entered.append(header)
        self._bytes += size
        return _literal(header, 0x40, 6)

    @property
    def entered(self) -> int:
        """How many headers are in the client's table; blocks stay the same while this does."""
        return -1 if self._resized else len(self._entered)


def _literal(header: Header, kind: int, bits: int) -> bytes:
    name, value = header
    index = _STATIC_NAMES.get(name, 0)
    start = _packed(index, bits, kind)
    return start + (b"" if index else _string(name)) + _string(value)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    return _packed(len(data), 7, 0) + data


def _packed(number: int, bits: int, kind: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes([kind | number])
    packed = bytearray([kind | most])
    number -= most
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """An integer whose first ``bits`` are in this byte, and where it ends."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in (0, 7, 14, 21):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number is too large")


def _text(block: bytes, at: int) -> tuple[str, int]:
    encoded = block[at] & 0x80
    length, at = _integer(block, at, 7)
    data = block[at : at + length]
    if len(data) != length:
        raise ValueError("a text is cut off")
    return (huffman.decode(data) if encoded else data).decode("latin-1"), at + length
