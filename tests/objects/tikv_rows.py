"""The rows of a small TiKV: versions, locks, rollbacks, by the rules of optimistic transactions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv.placement import LOGICAL_BITS

_DELETE = 1
_Mine = Callable[[bytes], bool]
"""Whether a key is in the region that was asked."""


@dataclass(slots=True)
class _Row:
    lock: pb.Lock | None = None
    value: bytes | None = None
    """What the lock's transaction writes; None deletes."""
    versions: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    """Commit, start and value, the newest first."""
    rolled_back: set[int] = field(default_factory=set)

    def committed(self, start: int) -> int:
        """When the transaction that began at ``start`` changed this row; 0 if it did not."""
        return next((commit for commit, began, _ in self.versions if began == start), 0)


class Rows:
    """All keys. Nothing here waits, so every call is one step that nobody can interrupt."""

    def __init__(self) -> None:
        self._rows: dict[bytes, _Row] = {}
        self._order: list[bytes] = []

    def get(self, key: bytes, version: int) -> pb.Pair:
        row = self._rows.get(key)
        pair = pb.Pair(key=key)
        if row is None:
            return pair
        if row.lock is not None and row.lock.lock_version <= version:
            pair.error.locked.CopyFrom(row.lock)
            return pair
        value = next((value for commit, _, value in row.versions if commit <= version), None)
        pair.value = value or b""
        return pair

    def scan(self, start: bytes, end: bytes, limit: int, version: int) -> list[pb.Pair]:
        found: list[pb.Pair] = []
        for key in self._between(start, end):
            pair = self.get(key, version)
            if pair.value or pair.HasField("error"):
                found.append(pair)
            if len(found) == limit:
                break
        return found

    def prewrite(self, request: pb.PrewriteRequest) -> list[pb.KeyError]:
        """Lock all keys, or none of them."""
        start = request.start_version
        errors = [
            error
            for each in request.mutations
            if (error := _obstacle(self._row(each.key), start)) is not None
        ]
        for each in [] if errors else request.mutations:
            row = self._row(each.key)
            row.value = None if each.op == _DELETE else each.value
            row.lock = pb.Lock(
                primary_lock=request.primary_lock,
                lock_version=start,
                key=each.key,
                lock_ttl=request.lock_ttl,
                txn_size=request.txn_size,
            )
        return errors

    def commit(self, keys: Sequence[bytes], start: int, at: int) -> pb.KeyError | None:
        """Make visible what was prewritten. A commit that is repeated changes nothing."""
        for key in keys:
            row = self._row(key)
            if row.lock is not None and row.lock.lock_version == start:
                row.versions.insert(0, (at, start, row.value))
                row.lock = row.value = None
            elif not row.committed(start):
                return pb.KeyError(txn_lock_not_found=pb.Flag())
        return None

    def roll_back(self, keys: Sequence[bytes], start: int) -> pb.KeyError | None:
        for key in keys:
            row = self._row(key)
            if row.committed(start):
                return pb.KeyError(abort="the transaction was committed")
            if row.lock is not None and row.lock.lock_version == start:
                row.lock = row.value = None
            row.rolled_back.add(start)
        return None

    def check(self, request: pb.CheckTxnRequest) -> pb.CheckTxnAnswer:
        """What became of a transaction, by its primary key. Rolls it back if it has expired."""
        row, start = self._row(request.primary_key), request.lock_ts
        lock = row.lock
        if lock is not None and lock.lock_version == start:
            if lock.primary_lock != request.primary_key:
                return pb.CheckTxnAnswer(error=pb.KeyError(primary_mismatch=pb.Flag()))
            if (start >> LOGICAL_BITS) + lock.lock_ttl >= request.current_ts >> LOGICAL_BITS:
                return pb.CheckTxnAnswer(lock_ttl=lock.lock_ttl)
            self.roll_back([request.primary_key], start)
            return pb.CheckTxnAnswer()
        commit = row.committed(start)
        if not commit and start not in row.rolled_back:
            if not request.rollback_if_not_exist:
                return pb.CheckTxnAnswer(error=pb.KeyError(txn_not_found=pb.Flag()))
            row.rolled_back.add(start)
        return pb.CheckTxnAnswer(commit_version=commit)

    def resolve(self, request: pb.ResolveRequest, mine: _Mine) -> pb.KeyError | None:
        """Commit or roll back locks of one transaction: those named, or all of the region."""
        start = request.start_version
        keys = request.keys or [lock.key for lock in self._locks(b"", b"") if mine(lock.key)]
        held = [
            key
            for key in keys
            if (lock := self._row(key).lock) is not None and lock.lock_version == start
        ]
        if request.commit_version:
            return self.commit(held, start, request.commit_version)
        return self.roll_back(held, start)

    def locks(self, request: pb.ScanLockRequest) -> list[pb.Lock]:
        found = self._locks(request.start_key, request.end_key)
        return [each for each in found if each.lock_version <= request.max_version][: request.limit]

    def _locks(self, start: bytes, end: bytes) -> list[pb.Lock]:
        found = (self._rows[key].lock for key in self._between(start, end))
        return [lock for lock in found if lock is not None]

    def _between(self, start: bytes, end: bytes) -> Iterator[bytes]:
        first = bisect_left(self._order, start)
        last = bisect_left(self._order, end) if end else len(self._order)
        return iter(self._order[first:last])

    def _row(self, key: bytes) -> _Row:
        if key not in self._rows:
            insort(self._order, key)
            self._rows[key] = _Row()
        return self._rows[key]


def _obstacle(row: _Row, start: int) -> pb.KeyError | None:
    """Why the transaction that began at ``start`` cannot lock a row."""
    if row.lock is not None and row.lock.lock_version != start:
        return pb.KeyError(locked=row.lock)
    if start in row.rolled_back or (row.versions and row.versions[0][0] >= start):
        return pb.KeyError(conflict=pb.Flag())
    return None
