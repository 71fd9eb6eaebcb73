"""Requests to erase records of a topic: ``/state/{namespace}/{topic}/erasures/{id}``, and what was
erased so far: ``/state/{namespace}/{topic}/erased/{id}/{first offset}-{generation}``.

Which requests are open is in the topic's list of ledgers; each is written, changed and ended in the
same transaction as the list, so only the topic's owner can do it, and the next owner continues. The
proof of each replaced object is written by the transaction that names the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sulina.metadata.keys import record
from sulina.metadata.keys.path import state_root
from sulina.metadata.store import Delete, DeletePrefix, MetadataStore, Op, Put
from sulina.names import TopicName

MOST_OPEN: Final = 16
"""Open requests of a topic."""
MOST_REPEATED: Final = 64
"""Requests of a topic that have to be repeated if removed ledgers are restored."""
MOST_KEYS: Final = 1000
"""Keys of a request."""
MOST_RANGES: Final = 5000
"""Ranges of offsets of a request."""
_REMEMBERED: Final = 16
_PROOFS_AT_ONCE: Final = 500
_REQUESTS_AT_ONCE: Final = 8
"""Each may have some hundred kilobytes."""
_FORGOTTEN_AT_ONCE: Final = 16

Ranges = tuple[tuple[int, int], ...]
"""First and last offsets, in order, without overlaps."""


class ErasureState(StrEnum):
    """How far a request is."""

    WAITING = "waiting"
    TIERING = "tiering"
    REWRITING = "rewriting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (ErasureState.DONE, ErasureState.FAILED, ErasureState.CANCELLED)


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What to erase from a topic: the records of keys, or those at offsets."""

    id: int
    began_us: int
    until: int
    """Only records below this offset are erased: those that were there when it was requested."""
    key_digests: tuple[str, ...] = ()
    """See ``sulina.lake.erasing.key_digest``."""
    offsets: Ranges = ()
    state: ErasureState = ErasureState.WAITING
    searched: int = 0
    """Nothing below this offset is left to erase."""
    ended_us: int = 0
    gone_us: int = 0
    """When the last object that was replaced or removed is deleted, once it is done."""
    versions_gone_us: int = 0
    """When what the object store keeps of them is gone, too; 0 if that is not known."""
    kept: str = ""
    """What it keeps of them, in words."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ErasedObject:
    """An object that an erasure replaced: the proof of what it did."""

    first_offset: int
    last_offset: int
    erased: int
    others: str
    """The digest of all its other records, the same before and after."""


def _root(topic: TopicName) -> str:
    return state_root(topic) + "erasures/"


def _key(topic: TopicName, number: int) -> str:
    return f"{_root(topic)}{number:010d}"


def _proofs(topic: TopicName, number: int) -> str:
    return f"{state_root(topic)}erased/{number:010d}/"


def put(topic: TopicName, request: ErasureRequest) -> Put:
    """Writes a request."""
    return Put(_key(topic, request.id), record.encode(request))


def put_proof(topic: TopicName, number: int, generation: int, proof: ErasedObject) -> Put:
    """Writes what was erased by replacing an object."""
    key = f"{_proofs(topic, number)}{proof.first_offset:020d}-{generation:010d}"
    return Put(key, record.encode(proof))


def forget(topic: TopicName, requests: Iterable[ErasureRequest], kept: Sequence[int]) -> list[Op]:
    """Deletes all but the newest requests that ended, except those in ``kept``."""
    ended = [each.id for each in requests if each.state.ended and each.id not in kept]
    gone: list[Op] = []
    for number in sorted(ended)[:-_REMEMBERED][:_FORGOTTEN_AT_ONCE]:
        gone += [Delete(_key(topic, number)), DeletePrefix(_proofs(topic, number))]
    return gone


async def get(store: MetadataStore, topic: TopicName, number: int) -> ErasureRequest | None:
    """A request, if it is remembered."""
    return await record.get(store, ErasureRequest, _key(topic, number))


async def get_all(store: MetadataStore, topic: TopicName) -> list[ErasureRequest]:
    """The requests of a topic that are open or remembered, oldest first."""
    found: list[ErasureRequest] = []
    after: str | None = None
    while True:
        listing = await store.range(_root(topic), limit=_REQUESTS_AT_ONCE, after=after)
        found += [record.decode(ErasureRequest, item) for item in listing.items]
        if not listing.more:
            return found
        after = listing.items[-1].key


async def proofs(store: MetadataStore, topic: TopicName, number: int) -> list[ErasedObject]:
    """What a request has erased so far, by offset."""
    found: list[ErasedObject] = []
    after: str | None = None
    while True:
        listing = await store.range(_proofs(topic, number), limit=_PROOFS_AT_ONCE, after=after)
        found += [record.decode(ErasedObject, item) for item in listing.items]
        if not listing.more:
            return found
        after = listing.items[-1].key
