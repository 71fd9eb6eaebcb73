"""When a topic was last seen in use: ``/state/{namespace}/{topic}/used``.

Written by its owner, and only where unused topics are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.metadata.keys import record
from sulina.metadata.keys.path import state_root
from sulina.metadata.keys.topics import exists
from sulina.metadata.store import MetadataStore, Put
from sulina.names import TopicName


@dataclass(frozen=True, slots=True)
class LastUse:
    """By the wall clock of the owner."""

    at_us: int


def key(topic: TopicName) -> str:
    return state_root(topic) + "used"


async def get(store: MetadataStore, topic: TopicName) -> int | None:
    """When a topic was last seen in use, if that is known."""
    found = await record.get(store, LastUse, key(topic))
    return None if found is None else found.at_us


async def put(store: MetadataStore, topic: TopicName, at_us: int) -> None:
    """Store it; does nothing if the topic does not exist."""
    await store.txn([exists(topic)], [Put(key(topic), record.encode(LastUse(at_us)))])
