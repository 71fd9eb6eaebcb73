"""Stored messages of several partitions as one sequence, by the time when they were published.

Each partition is asked for a page when all messages of its previous one were taken, a few
partitions at once, so memory holds at most a page of each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sulina.model import Start

if TYPE_CHECKING:
    from sulina import Client, Message

PAGE: Final = 1000
_FOUND_PAGE: Final = 100
_PAGE_BYTES: Final = 8 << 20
_AT_ONCE: Final = 4

Pages = AsyncIterator[list["Message"]]


@dataclass(frozen=True, slots=True)
class Filter:
    """What messages must have to be found; an empty text asks for nothing."""

    key: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.key or self.text)


async def stored(client: Client, topic: str, start: Start, count: int) -> Pages:
    """The messages of a partition from ``start`` on, at most ``count``."""
    at_end = False
    while count > 0 and not at_end:
        page = await client.read(topic, start, max_records=min(count, PAGE), max_bytes=_PAGE_BYTES)
        yield [message for batch in page for message in batch]
        count -= len(page)
        start, at_end = Start.offset(page.next_offset), page.at_end


async def found(
    client: Client, topic: str, start: Start, count: int, wanted: Filter, *, newest_first: bool
) -> Pages:
    """The same for messages that the broker finds; each is then read whole."""
    before: int | None = None
    at_end = False
    while count > 0 and not at_end:
        page = await client.admin.messages.search(
            topic,
            key=wanted.key,
            text=wanted.text,
            start=start,
            before=before,
            newest_first=newest_first,
            limit=min(count, _FOUND_PAGE),
        )
        yield [
            message
            for each in page.messages
            for batch in await client.read(topic, Start.offset(each.offset), max_records=1)
            for message in batch
        ]
        count -= len(page.messages)
        at_end = page.at_end
        if newest_first:
            before = page.next_offset
        else:
            start = Start.offset(page.next_offset)


async def merged(parts: Sequence[Pages], *, newest_first: bool = False) -> Pages:
    """The messages of all ``parts`` by publish time, in runs; those of one part keep their order.

    Raises what a part raises.
    """
    sign = -1 if newest_first else 1
    waiting: list[deque[Message]] = [deque() for _ in parts]
    open_parts = set(range(len(parts)))
    limit = asyncio.Semaphore(_AT_ONCE)

    async def fill(index: int) -> None:
        async with limit:
            while not waiting[index]:
                page = await anext(parts[index], None)
                if page is None:
                    open_parts.discard(index)
                    return
                waiting[index].extend(page)

    def head(index: int) -> tuple[int, int]:
        return sign * waiting[index][0].publish_time_us, index

    while True:
        empty = [index for index in open_parts if not waiting[index]]
        await asyncio.gather(*map(fill, empty))
        run = []
        # Until a part has to be asked again: its next message may come first.
        while (ready := [i for i, part in enumerate(waiting) if part]) and all(
            waiting[index] for index in open_parts
        ):
            run.append(waiting[min(ready, key=head)].popleft())
        if not run:
            return
        yield run
