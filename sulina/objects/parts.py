"""Splits a stream of chunks of any size into parts of equal size, and sends parts concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable

from sulina.errors import TooLarge
from sulina.objects.store import ObjectSettings


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


async def chained(first: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of ``first``, removed from it to free their memory, then the others."""
    while first:
        yield first.pop(0)
    async for part in rest:
        yield part


async def send_all(
    key: str,
    parts: AsyncIterator[bytes],
    send: Callable[[int, bytes], Awaitable[None]],
    settings: ObjectSettings,
    most: int,
) -> int:
    """Call ``send`` with every part and its number, from 0; returns the size of all.

    ``concurrency`` of the settings limits the calls, and how far ``parts`` is read. The first
    error is raised after the other calls were cancelled. Raises ``TooLarge`` for more than
    ``most`` parts.
    """
    slots, number, size = asyncio.Semaphore(settings.concurrency), 0, 0

    async def send_one(number: int, data: bytes) -> None:
        try:
            await send(number, data)
        finally:
            slots.release()

    try:
        async with asyncio.TaskGroup() as sending:
            async for data in parts:
                if number == most:
                    raise TooLarge(
                        f"{key} has more than {most} parts of {settings.part_bytes} bytes: raise "
                        "ObjectSettings.part_bytes"
                    )
                await slots.acquire()
                sending.create_task(send_one(number, data))
                number, size = number + 1, size + len(data)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return size
