"""The interface of the metadata store, and the values that cross it.

The store is a sorted map from text keys to bytes, with the semantics of etcd:

* One revision counts the changes of the whole store. It starts at 1; every transaction that
  changes something raises it by one, and all changes of a transaction carry that revision.
* A key remembers the revision that created it, the one that changed it last, and its version,
  which is 1 when created and counts its changes. A deleted key starts anew.
* A transaction is atomic, is ordered against all others, and is durable when it returns.
* Reads see every transaction that returned before they began, and never part of one.
* A key may be bound to a lease and is deleted with it.
* A watch reports every change from a given revision on, while the store still holds it.

Errors are those of ``sulina.errors``. A write that ends with ``UnknownOutcome`` may have happened:
read back before it is tried again. Any ``Retriable`` error means that nothing happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Self

from sulina.errors import Refused
from sulina.metadata.lease import Lease


class Compacted(Refused):
    """The store no longer holds the changes a watch asked for: list again, then watch from there.

    ``revision`` is the oldest revision from which a watch can begin now.
    """

    def __init__(self, revision: int) -> None:
        super().__init__(
            f"changes before revision {revision} are no longer held: "
            "list the keys again and watch from the listing's revision + 1"
        )
        self.revision = revision


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it stood at one revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int
    """The lease it goes with, or 0."""


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
    """Keys in order, all as they stood at ``revision``."""

    items: tuple[KeyValue, ...]
    revision: int
    more: bool
    """Whether the limit left some out; the next page begins ``after`` the last key of this one."""


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
    """Holds if the key was last changed by ``revision``; 0 stands for a key that is absent."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class VersionIs:
    """Holds if the key was changed ``version`` times since created; 0 stands for absent."""

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class ValueIs:
    """Holds if the key exists with this value."""

    key: str
    value: bytes


Compare = Absent | Present | ModRevisionIs | VersionIs | ValueIs


@dataclass(frozen=True, slots=True)
class Put:
    """Create or change a key. Without a lease, one it was bound to before lets go of it."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key, if it exists."""

    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Delete every key that starts with ``prefix``, which normally ends with ``/``."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Get:
    """Read a key, as the operations before it in the same transaction left it."""

    key: str


@dataclass(frozen=True, slots=True)
class GetPrefix:
    """Read the keys that start with ``prefix``, in order, at most ``limit`` of them, as the
    operations before it in the same transaction left them."""

    prefix: str
    limit: int


Op = Put | Delete | DeletePrefix | Get | GetPrefix


@dataclass(frozen=True, slots=True)
class Response:
    """What one operation of a transaction answered."""

    item: KeyValue | None = None
    """What ``Get`` found."""
    deleted: int = 0
    """How many keys ``Delete`` or ``DeletePrefix`` removed."""
    items: tuple[KeyValue, ...] = ()
    """What ``GetPrefix`` found."""
    more: bool = False
    """Whether its limit left some out."""


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Which branch of a transaction ran, the store's revision after it, an answer for each op."""

    succeeded: bool
    revision: int
    responses: tuple[Response, ...]


class Watch(Protocol):
    """Changes in the order of their revisions, none twice and none missing.

    Iteration waits for the next change; it raises ``Compacted`` when changes that this watch
    needs are no longer held, and ``Closed`` when the store was closed. One task iterates.
    The changes of one transaction come one after the other: a caller that stops between them
    resumes from the revision of the last one, and sees that transaction again.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Event: ...

    async def aclose(self) -> None:
        """Stop; an iteration that is waiting ends."""
        ...


class MetadataStore(Protocol):
    """A metadata store; the semantics are at the head of this file, the limits in ``check``."""

    async def get(self, key: str) -> KeyValue | None:
        """The key as it is now, or None."""
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

        At most ``limit`` of them, and only those behind ``after``. End the prefix with ``/``, or
        it also matches the neighbours whose names merely begin the same way. With ``keys_only``
        the values stay where they are, and are empty here.
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
        """Run ``then`` if every comparison holds, else ``otherwise``: all of it, or nothing.

        Raises ``Refused`` for more than 128 comparisons or operations, or if one branch writes a
        key twice; ``TooLarge`` beyond the limits; ``NotFound`` if a lease it names is gone.
        """
        ...

    async def grant(self, ttl_seconds: int) -> Lease:
        """A new lease. The store may give it a longer time to live than was asked for."""
        ...

    def watch(self, prefix: str, *, from_revision: int) -> Watch:
        """Changes of keys that start with ``prefix``, from ``from_revision`` (at least 1) on.

        To miss nothing after a listing, watch from its revision + 1.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget changes before ``revision``; nothing happens if they are forgotten already.

        Current keys are never affected. Raises ``Refused`` for a revision yet to come.
        """
        ...

    async def close(self) -> None:
        """Finish what is under way and release everything; later calls raise ``Closed``."""
        ...
