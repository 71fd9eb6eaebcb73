"""Finds out how the chains end where retention is about to cut the trail, and stores it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from sulina.audit import TOPIC, ChainHead, TrailStart, decode
from sulina.errors import Unavailable
from sulina.metadata.keys import audit
from sulina.metadata.store import MetadataStore
from sulina.model import Start
from sulina.operations.client import AdminClient

_PAGE: Final = 1_000


async def trail_start(admin: AdminClient, store: MetadataStore, before: int) -> TrailStart:
    """The start of the trail once the records before an offset are gone; durable on return.

    Reads all of those records. The current start stays stored with it, because they are not gone
    yet.
    """
    ends: dict[str, ChainHead] = {}
    current: TrailStart | None = None
    position, first = 0, True
    while position < before:
        page = await admin.messages.peek(TOPIC, start=Start.offset(position), limit=_PAGE)
        if not page.messages:
            raise Unavailable(f"{TOPIC} can't be read up to offset {before}: try again")
        if first:
            first, began = False, page.messages[0].offset
            known = await audit.starts(store)
            current = next((each for each in known if began and each.offset == began), None)
            ends = {} if current is None else {each.broker: each for each in current.ends}
        for message in page.messages:
            if message.offset >= before:
                break
            with suppress(ValueError):  # a verification reports what can't be read
                record = decode(message.payload)
                ends[record.broker] = record.head
        position = page.next_offset
    start = TrailStart(before, tuple(ends[broker] for broker in sorted(ends)))
    await audit.put_starts(store, *(() if current is None else (current,)), start)
    return start
