"""The control frame at the end of a topic's newest ledger: ``/state/{namespace}/{topic}/closing``.

Written when the newest ledger has been tiered, so that the next owner can read the producers'
sequences even if the object store is unavailable. It stays true for its ledger, and is unused once
the ledger has a successor.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from sulina.errors import CorruptEntry
from sulina.metadata.keys import record
from sulina.metadata.keys.path import state_root
from sulina.metadata.store import MetadataStore, Put
from sulina.names import TopicName

MAX_BYTES: Final = 64 << 10
"""A longer frame, of thousands of producers, is only in the object."""


@dataclass(frozen=True, slots=True)
class _Closing:
    ledger: int
    frame: str


def key(topic: TopicName) -> str:
    return state_root(topic) + "closing"


def puts(topic: TopicName, ledger: int, frame: bytes) -> list[Put]:
    """Writes a control frame; nothing for an empty one, or one that is too long."""
    if not 0 < len(frame) <= MAX_BYTES:
        return []
    value = _Closing(ledger, b64encode(frame).decode())
    return [Put(key(topic), record.encode(value))]


async def get(store: MetadataStore, topic: TopicName, ledger: int) -> bytes | None:
    """The control frame stored for the end of ``ledger``, if there is one."""
    item = await store.get(key(topic))
    if item is None:
        return None
    found = record.decode(_Closing, item)
    try:
        return b64decode(found.frame, validate=True) if found.ledger == ledger else None
    except ValueError as error:
        raise CorruptEntry(f"the metadata at {item.key} cannot be read: {error}") from error
