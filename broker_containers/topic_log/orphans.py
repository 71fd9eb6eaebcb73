"""Finds ledgers that no topic names: left over when a deletion or a creation was interrupted."""

from __future__ import annotations

from contextlib import suppress

from storage_grpc.entries import EntryStore
from sulina.errors import StorageFull
from sulina.metadata.keys import ledgers, namespaces, topics
from sulina.metadata.store import MetadataStore


async def delete_orphans(entries: EntryStore, store: MetadataStore) -> int:
    """Delete the orphans of a store that nobody uses yet; returns how many there were.

    On a full disk they stay for the next start: they are in nobody's way.
    """
    named: set[int] = set()
    for namespace in await namespaces.list_names(store):
        for topic in await topics.list_all(store, namespace):
            listed = (await ledgers.get(store, topic)).list.ledgers
            named.update(ledger.id for ledger in listed)
    orphans = [ledger for ledger in entries.ledgers() if ledger not in named]
    with suppress(StorageFull):
        for ledger in orphans:
            await entries.delete(ledger)
    return len(orphans)
