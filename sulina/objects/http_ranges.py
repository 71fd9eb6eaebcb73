"""Byte ranges of objects, for stores with an HTTP interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sulina.errors import NotFound
from sulina.objects.outcomes import RangeError
from sulina.objects.store import ObjectInfo, check_length, check_range, ends_early

Read = Callable[[str, str], Awaitable[tuple[bytes, int]]]
"""Takes a key and a ``Range`` header; returns the bytes and the object's size. Raises
``RangeError`` if the object has no such bytes."""
Info = Callable[[str], Awaitable[ObjectInfo | None]]


async def read_range(read: Read, info: Info, key: str, start: int, end: int) -> bytes:
    """``ObjectStore.get``."""
    check_range(key, start, end)
    data = b""
    try:
        if start < end:
            data, size = await read(key, f"bytes={start}-{end - 1}")
        else:
            size = await _size(info, key)  # HTTP has no empty range
    except RangeError:
        size = await _size(info, key)
    if end > size:
        raise ends_early(key, end, size)
    return data


async def read_tail(read: Read, key: str, length: int) -> tuple[bytes, int]:
    """``ObjectStore.tail``."""
    check_length(key, length)
    try:
        return await read(key, f"bytes=-{length}")
    except RangeError:
        return b"", 0  # an empty object has no last bytes


async def _size(info: Info, key: str) -> int:
    found = await info(key)
    if found is None:
        raise NotFound(f"the object {key} does not exist")
    return found.size
