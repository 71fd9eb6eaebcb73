"""The interface of the metadata store, and the values that cross it.

The store is a sorted map from text keys to bytes, with the semantics of etcd:

* One revision counts the changes of the whole store. It starts at 1; every transaction that
  changes something raises it by one, and all changes of a transaction carry that revision.
* A key has the revision that created it, the revision of its last change, and a version, which is
  1 when created and counts its changes. A deleted key starts again at version 1.
* A transaction is atomic, is ordered against all others, and is durable when it returns.
* Reads see every transaction that returned before they began, and never part of one.
* A key may be bound to a lease and is deleted with it.
* A watch reports every change from a given revision on, while the store still holds it.

Errors are those of ``sulina.errors``. After ``UnknownOutcome`` a write may have happened: read back
before trying again. Any ``Retriable`` error means that nothing happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Self, runtime_checkable

from sulina.errors import Refused
from sulina.metadata.lease import Lease


class Compacted(Refused):
    """The store no longer holds the changes that a watch needs: list again, then watch from there.

    ``revision`` is the oldest revision at which a watch can start now.
    """

    def __init__(self, revision: int) -> None:
        super().__init__(
            f"changes before revision {revision} are no longer held: "
            "list the keys again and watch from the listing's revision + 1"
        )
        self.revision = revision


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key at one revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int
    """The lease that it is bound to, or 0."""


class EventKind(Enum):
    """What happened to a key."""

    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key. The value of a deletion is empty."""

    kind: EventKind
    key: str
    value: bytes
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Keys in order, all at ``revision``."""

    items: tuple[KeyValue, ...]
    revision: int
    more: bool
    """Whether the limit omitted some; the next page starts ``after`` the last key of this one."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Holds if the key does not exist."""

    key: str


@dataclass(frozen=True, slots=True)
class Present:
    """Holds if the key exists."""

    key: str


@dataclass(frozen=True, slots=True)
class ModRevisionIs:
    """Holds if the key was last changed by ``revision``; 0 means an absent key."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class ValueIs:
    """Holds if the key exists with this value."""

    key: str
    value: bytes


Compare = Absent | Present | ModRevisionIs | ValueIs


@dataclass(frozen=True, slots=True)
class Put:
    """Create or change a key. Without ``lease``, the key is detached from its previous lease."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key, if it exists."""

    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Delete every key that starts with ``prefix``, which should end with ``/``."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Get:
    """Read a key, with the changes of earlier operations of the same transaction."""

    key: str


@dataclass(frozen=True, slots=True)
class GetPrefix:
    """Read at most ``limit`` keys that start with ``prefix``, in order, with the changes of earlier
    operations of the same transaction."""

    prefix: str
    limit: int


Op = Put | Delete | DeletePrefix | Get | GetPrefix


@dataclass(frozen=True, slots=True)
class Response:
    """The result of one operation of a transaction."""

    item: KeyValue | None = None
    """The result of ``Get``."""
    deleted: int = 0
    """How many keys ``Delete`` or ``DeletePrefix`` removed."""
    items: tuple[KeyValue, ...] = ()
    """The result of ``GetPrefix``."""
    more: bool = False
    """Whether the limit of ``GetPrefix`` omitted some."""


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Which branch of a transaction ran, the revision after it, and a result per operation."""

    succeeded: bool
    revision: int
    responses: tuple[Response, ...]


class Watch(Protocol):
    """Changes in revision order, without duplicates or gaps.

    Iterating waits for the next change. It raises ``Compacted`` when changes that this watch needs
    are no longer held, and ``Closed`` when the store was closed. Only one task may iterate. The
    changes of a transaction come one after the other: a caller that stops between them resumes
    from the revision of the last one, and sees that transaction again.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Event: ...

    async def aclose(self) -> None:
        """Stop; a waiting iteration ends."""
        ...


class MetadataStore(Protocol):
    """A metadata store. This module's docstring has the semantics, ``check`` the limits."""

    async def get(self, key: str) -> KeyValue | None:
        """The current value of a key, or None."""
        ...

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        """The keys that start with exactly ``prefix``, in order, at one revision.

        At most ``limit`` of them, and only those after ``after``. End the prefix with ``/``;
        otherwise it also matches longer names. With ``keys_only`` the values are not read and are
        empty in the result.
        """
        ...

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Create or change a key; returns the new revision. ``NotFound`` if the lease is gone."""
        ...

    async def delete(self, key: str) -> bool:
        """Delete a key; returns whether it existed."""
        ...

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        """Run ``then`` if every comparison holds, otherwise ``otherwise``, atomically.

        Raises ``Refused`` for more than 128 comparisons or operations, or if one branch writes a
        key twice; ``TooLarge`` beyond the limits; ``NotFound`` if a lease it names is gone.
        """
        ...

    async def grant(self, ttl_seconds: int) -> Lease:
        """A new lease. The store may grant a longer time to live than requested."""
        ...

    def watch(self, prefix: str, *, from_revision: int) -> Watch:
        """Changes of keys that start with ``prefix``, from ``from_revision`` (at least 1) on.

        To miss nothing after a listing, watch from its revision + 1.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Discard the history before ``revision``; does nothing if it is discarded already.

        Current keys are not affected. Raises ``Refused`` for a future revision.
        """
        ...

    async def close(self) -> None:
        """Finish the calls in flight and release everything; later calls raise ``Closed``."""
        ...


@runtime_checkable
class ReplicatedStore(Protocol):
    """A store of several members."""

    async def silent_members(self) -> Sequence[str]:
        """The addresses of those that do not answer; empty if all do."""
        ...
