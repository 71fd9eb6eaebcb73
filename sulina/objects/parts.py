"""Cuts a stream of chunks of any size into parts of one size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator


async def in_parts(chunks: AsyncIterable[bytes], part_bytes: int) -> AsyncGenerator[bytes]:
    """Parts of exactly ``part_bytes``, the last one excepted; one empty part if there is nothing.

    Holds one part and one chunk at most. A part is handed out only when it is known whether more
    follows: whoever gets one may look at the next to learn that it was the last.
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
    """The next ``count`` parts, or those that are left."""
    found: list[bytes] = []
    async for part in parts:
        found.append(part)
        if len(found) == count:
            break
    return found
