"""Topics whose owner has a request to finish: ``/requests/{namespace}/{topic}``.

A request to erase or rewrite is in the topic's own state. This says, without opening every topic,
which ones a broker has to open after a restart to go on. Written and deleted together with the
topic's list of ledgers, and deleted with the topic.
"""

from __future__ import annotations

from typing import Final

from sulina.metadata.keys.ledger_list import LedgerList
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import Delete, MetadataStore, Put
from sulina.names import TopicName

ROOT: Final = "/requests/"


def key(topic: TopicName) -> str:
    return f"{ROOT}{part(topic.namespace)}/{part(topic.local)}"


def mark(topic: TopicName, ledgers: LedgerList) -> Put | Delete:
    """Says whether a topic with this list has something to finish."""
    if ledgers.requested:
        return Put(key(topic), b"")
    return Delete(key(topic))


async def topics(store: MetadataStore) -> list[TopicName]:
    """The topics with requests."""
    listing = await store.range(ROOT, keys_only=True)
    names = (item.key.removeprefix(ROOT).split("/") for item in listing.items)
    return [TopicName(name_of(namespace), name_of(local)) for namespace, local in names]
