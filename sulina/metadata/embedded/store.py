"""The embedded store: ``MetadataStore`` for one process, in memory or on a disk.

On a disk, every change is durable before its call returns and before any reader sees it. A reopened
store has the same keys, revisions and leases (with their full time to live). Reads and watches
never wait for the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from sulina.errors import Closed
from sulina.metadata import check
from sulina.metadata.embedded.committer import MetadataCommitter
from sulina.metadata.embedded.expiry import Expiry
from sulina.metadata.embedded.history import ChangeHistory, HistoryWatch
from sulina.metadata.embedded.log import DEFAULT_LOG_BYTES, TransactionLog
from sulina.metadata.embedded.recovery import recover
from sulina.metadata.embedded.state import Change, LeaseGranted, LeaseRevoked, StoreState
from sulina.metadata.lease import Lease
from sulina.metadata.store import Compare, Delete, KeyValue, Listing, Op, Put, TxnResult
from sulina.runtime.seam import Clock, Disk


class EmbeddedStore:
    """A ``MetadataStore``. Create it with ``open``; only one at a time per disk."""

    def __init__(self, clock: Clock, state: StoreState, log: TransactionLog | None) -> None:
        self._clock = clock
        self._state = state
        self._history = ChangeHistory(state.revision)
        self._expiry = Expiry(clock, self.revoke_lease)
        self._committer = MetadataCommitter(state, log, self._publish)
        self._closed = False

    @classmethod
    async def open(
        cls, clock: Clock, disk: Disk | None = None, *, max_log_bytes: int = DEFAULT_LOG_BYTES
    ) -> Self:
        """Open the store on ``disk``, or create it; without a disk, it is in memory only.

        The caller closes the disk after the store. A snapshot replaces the log when that is longer
        than ``max_log_bytes``. Raises ``CorruptEntry`` if acknowledged changes cannot be read.
        """
        if disk is None:
            return cls(clock, StoreState(), None)
        found = await recover(disk, clock, max_log_bytes=max_log_bytes)
        store = cls(clock, found.state, found.log)
        store._restore(found.since)
        return store

    def _restore(self, since: Iterable[Change]) -> None:
        for change in since:
            self._state.apply(change)
        self._history.record(since)
        for lease, ttl in self._state.leases.items():
            self._expiry.start(lease, ttl)

    def _publish(self, changes: list[Change]) -> None:
        for change in changes:
            self._state.apply(change)
        self._history.record(changes)
        for change in changes:
            match change:
                case LeaseGranted(lease, ttl):
                    self._expiry.start(lease, ttl)
                case LeaseRevoked(lease):
                    self._expiry.stop(lease)

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        check.check_key(key)
        return self._state.get(key)

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        self._check_open()
        check.check_range(prefix, after, limit)
        items: list[KeyValue] = []
        for item in self._state.scan(prefix, after):
            if len(items) == limit:
                return Listing(tuple(items), self._state.revision, more=True)
            items.append(replace(item, value=b"") if keys_only else item)
        return Listing(tuple(items), self._state.revision, more=False)

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return (await self.txn((), (Put(key, value, lease),))).revision

    async def delete(self, key: str) -> bool:
        return (await self.txn((), (Delete(key),))).responses[0].deleted > 0

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        size = check.check_txn(compares, then, otherwise)
        return await self._committer.commit(
            lambda uncommitted: uncommitted.run(compares, then, otherwise), size
        )

    async def grant(self, ttl_seconds: int) -> Lease:
        check.check_ttl(ttl_seconds)
        sent = self._clock.now()
        lease = await self._committer.commit(lambda uncommitted: uncommitted.grant(ttl_seconds))
        return Lease(lease, ttl_seconds, self, self._clock, sent)

    async def renew_lease(self, lease: int) -> bool:
        self._check_open()
        return self._expiry.renew(lease)

    async def revoke_lease(self, lease: int) -> None:
        await self._committer.commit(lambda uncommitted: uncommitted.revoke(lease))

    def watch(self, prefix: str, *, from_revision: int) -> HistoryWatch:
        self._check_open()
        check.check_prefix(prefix)
        check.check_from_revision(from_revision)
        return HistoryWatch(self._history, prefix, from_revision)

    async def compact(self, revision: int) -> None:
        """Discard the history before ``revision``. A restart discards all of it anyway."""
        self._check_open()
        self._history.compact(revision, self._state.revision)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._committer.close()
        await self._expiry.close()
        self._history.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the metadata store is closed")
