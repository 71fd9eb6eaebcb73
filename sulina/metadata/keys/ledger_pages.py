"""Pages of a long ledger list: ``/state/{namespace}/{topic}/ledger-pages/{its first ledger}``.

A page stores consecutive ledgers as rows of about 100 bytes, without what follows from the previous
row. It is written in the transaction that changes the list, and only if one of its ledgers changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sulina.errors import CorruptEntry, SulinaError
from sulina.metadata.keys.ledger_list import LedgerList, LedgerRef, LedgerState, Page, TieredRef
from sulina.metadata.keys.path import state_root
from sulina.metadata.store import KeyValue, Put
from sulina.names import TopicName

PAGE = 100
"""Ledgers in one page. A list keeps at most twice as many closed ones in its own value."""


def root(topic: TopicName) -> str:
    return state_root(topic) + "ledger-pages/"


def key(topic: TopicName, first: int) -> str:
    return f"{root(topic)}{first:020d}"


def with_pages(ledgers: LedgerList) -> LedgerList:
    """A copy with the oldest ledgers moved to pages, if it has many closed ones."""
    size = PAGE
    while True:
        start = ledgers.paged
        oldest = ledgers.ledgers[start : start + 2 * size]
        if len(oldest) < 2 * size or any(ref.state is LedgerState.OPEN for ref in oldest):
            return ledgers
        ledgers = replace(ledgers, pages=(*ledgers.pages, Page(oldest[0].id, size)))


def changes(topic: TopicName, before: LedgerList, now: LedgerList) -> tuple[list[Put], list[str]]:
    """The pages to write, and the keys of those to delete."""
    known = {page.first: before.of_page(number) for number, page in enumerate(before.pages)}
    versions = {page.first: page.version for page in before.pages}
    puts: list[Put] = []
    for number, page in enumerate(now.pages):
        refs = now.of_page(number)
        stored = known.get(page.first)
        # A page that only lost its oldest ledgers is not rewritten: the list says what to skip.
        same = stored is not None and stored[len(stored) - len(refs) :] == refs
        if not same or versions[page.first] != page.version:
            puts.append(Put(key(topic, page.first), _encode(refs, page)))
    there = {page.first for page in now.pages}
    gone = [key(topic, page.first) for page in before.pages if page.first not in there]
    return puts, gone


def join(topic: TopicName, head: LedgerList, items: Sequence[KeyValue]) -> LedgerList | None:
    """The complete list of a head and its pages; None if they do not match each other."""
    found = {item.key: item for item in items}
    refs: list[LedgerRef] = []
    for page in head.pages:
        item = found.get(key(topic, page.first))
        if item is None:
            return None
        gone, version, kept = _decode(item)
        start = page.skip - gone
        if start < 0 or version != page.version:
            return None  # it was rewritten meanwhile, without ledgers that the head still has
        refs += kept[start : start + page.count]
    return replace(head, ledgers=(*refs, *head.ledgers))


def _encode(refs: Sequence[LedgerRef], page: Page) -> bytes:
    rows: list[list[object]] = []
    for ref in refs:
        row = [ref.id, ref.records, ref.bytes, ref.first_time_us, ref.last_time_us, ref.last_entry]
        tiered = ref.tiered
        more: tuple[object, ...] = ()
        if tiered is not None:
            more = (tiered.size, tiered.digest, int(tiered.local))
            if tiered.generation or tiered.schema:
                more += (tiered.generation, tiered.records, tiered.schema)
        rows.append([*row, *more])
    value = {"first_offset": refs[0].first_offset, "gone": page.skip, "rows": rows}
    if page.version:
        value["version"] = page.version
    return json.dumps(value, separators=(",", ":")).encode()


def _decode(item: KeyValue) -> tuple[int, int, list[LedgerRef]]:
    """How many ledgers were gone when the page was last written, its version, and its ledgers."""
    try:
        value = json.loads(item.value)
        refs = _refs(int(value["first_offset"]), value["rows"])
        return int(value["gone"]), int(value.get("version", 0)), refs
    except (ValueError, KeyError, TypeError, SulinaError) as error:
        raise CorruptEntry(f"the metadata at {item.key} cannot be read: {error}") from error


def _refs(offset: int, rows: list[list[Any]]) -> list[LedgerRef]:
    refs: list[LedgerRef] = []
    for id_, records, size, first_time, last_time, last_entry, *tiered in rows:
        refs.append(
            LedgerRef(
                id_,
                offset,
                offset + records - 1,
                LedgerState.CLOSED,
                size,
                first_time,
                last_time,
                last_entry,
                TieredRef(tiered[0], tiered[1], bool(tiered[2]), *tiered[3:]) if tiered else None,
            )
        )
        offset += records
    return refs
