"""Splits a stream of chunks of any size into parts of equal size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator


async def in_parts(chunks: AsyncIterable[bytes], part_bytes: int) -> AsyncGenerator[bytes]:
    """Parts of exactly ``part_bytes``, except the last; one empty part if there is no data.

    Holds at most one part and one chunk. A full part is yielded only once more data follows, so the
    last part is never followed by an empty one.
    """
    pending: list[memoryview] = []
    length = 0
    async for chunk in chunks:
        rest = memoryview(chunk)
        while length + len(rest) > part_bytes:
            cut = part_bytes - length
            yield b"".join((*pending, rest[:cut]))
            pending, length, rest = [], 0, rest[cut:]
        if rest:
            pending.append(rest)
            length += len(rest)
    yield b"".join(pending)


async def take(parts: AsyncIterator[bytes], count: int) -> list[bytes]:
    """The next ``count`` parts, or the remaining ones."""
    found: list[bytes] = []
    async for part in parts:
        found.append(part)
        if len(found) == count:
            break
    return found
