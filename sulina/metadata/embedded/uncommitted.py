"""Transactions evaluated on top of a state without changing it.

``UncommittedChanges`` collects the changes of any number of transactions, each of which sees the
earlier ones. Its owner makes them durable and applies them to the state, or discards them, so that
no reader sees a transaction that may still fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sulina.errors import NotFound, Overloaded
from sulina.metadata.embedded.state import (
    Change,
    KeyRemoved,
    KeyStored,
    LeaseGranted,
    LeaseRevoked,
    StoreState,
)
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    Get,
    GetPrefix,
    KeyValue,
    ModRevisionIs,
    Op,
    Present,
    Put,
    Response,
    TxnResult,
    ValueIs,
)

MAX_LEASES = 10_000


class UncommittedChanges:
    """Changes that are not durable yet. Do not hold it across an await."""

    def __init__(self, state: StoreState) -> None:
        self.changes: list[Change] = []
        self.revision = state.revision
        self._state = state
        self._items: dict[str, KeyValue | None] = {}
        self._leases: dict[int, bool] = {}
        self._last_lease = state.last_lease
        self._lease_count = len(state.leases)

    def run(
        self, compares: Iterable[Compare], then: Sequence[Op], otherwise: Sequence[Op]
    ) -> TxnResult:
        """Evaluate a transaction. Raises ``NotFound``, without changes, if a lease is gone."""
        succeeded = all(map(self._holds, compares))
        ops = then if succeeded else otherwise
        for op in ops:
            if isinstance(op, Put) and op.lease and not self._has_lease(op.lease):
                raise NotFound(
                    f"lease {op.lease} for {op.key!r} no longer exists: it expired or was revoked; "
                    "request a new one"
                )
        before = len(self.changes)
        responses = tuple(map(self._do, ops))
        self._end_revision(before)
        return TxnResult(succeeded, self.revision, responses)

    def grant(self, ttl: int) -> int:
        """The id of a new lease. Raises ``Overloaded`` beyond the maximum."""
        if self._lease_count >= MAX_LEASES:
            raise Overloaded(
                f"the maximum of {MAX_LEASES} leases is reached: revoke some or try again later"
            )
        self._lease_count += 1
        self._last_lease += 1
        self._leases[self._last_lease] = True
        self.changes.append(LeaseGranted(self._last_lease, ttl))
        return self._last_lease

    def revoke(self, lease: int) -> None:
        """End a lease and delete its keys in one revision; does nothing if it is gone."""
        if not self._has_lease(lease):
            return
        before = len(self.changes)
        uncommitted = (key for key, item in self._items.items() if item and item.lease == lease)
        for key in sorted({*self._state.bound_to(lease), *uncommitted}):
            item = self._get(key)
            if item is not None and item.lease == lease:
                self._remove(key)
        self._end_revision(before)
        self._lease_count -= 1
        self._leases[lease] = False
        self.changes.append(LeaseRevoked(lease))

    def _end_revision(self, before: int) -> None:
        if len(self.changes) > before:
            self.revision += 1

    def _get(self, key: str) -> KeyValue | None:
        return self._items[key] if key in self._items else self._state.get(key)

    def _has_lease(self, lease: int) -> bool:
        return self._leases.get(lease, lease in self._state.leases)

    def _holds(self, compare: Compare) -> bool:
        item = self._get(compare.key)
        match compare:
            case Absent():
                return item is None
            case Present():
                return item is not None
            case ModRevisionIs(_, revision):
                return revision == (item.mod_revision if item else 0)
            case ValueIs(_, value):
                return item is not None and item.value == value

    def _do(self, op: Op) -> Response:
        match op:
            case Put(key, value, lease):
                self._store(key, value, lease)
                return Response()
            case Get(key):
                return Response(item=self._get(key))
            case GetPrefix(prefix, limit):
                return self._listed(prefix, limit)
            case Delete(key):
                keys = [key] if self._get(key) else []
            case DeletePrefix(prefix):
                keys = self._keys_under(prefix)
        for key in keys:
            self._remove(key)
        return Response(deleted=len(keys))

    def _listed(self, prefix: str, limit: int) -> Response:
        keys = self._keys_under(prefix)
        found = tuple(item for key in keys[:limit] if (item := self._get(key)) is not None)
        return Response(items=found, more=len(keys) > limit)

    def _keys_under(self, prefix: str) -> list[str]:
        keys = {item.key for item in self._state.scan(prefix)}
        for key, item in self._items.items():
            if item is None:
                keys.discard(key)
            elif key.startswith(prefix):
                keys.add(key)
        return sorted(keys)

    def _store(self, key: str, value: bytes, lease: int) -> None:
        revision = self.revision + 1
        previous = self._get(key)
        if previous is None:
            item = KeyValue(key, value, revision, revision, 1, lease)
        else:
            created, version = previous.create_revision, previous.version + 1
            item = KeyValue(key, value, created, revision, version, lease)
        self._items[key] = item
        self.changes.append(KeyStored(item))

    def _remove(self, key: str) -> None:
        self._items[key] = None
        self.changes.append(KeyRemoved(key, self.revision + 1))
