"""Transactions: several keys change together, or none does.

A transaction reads at its start timestamp and locks the keys that it changes, its primary key last.
If another transaction changed one of them since the start, it fails. Committing the primary key
commits all; the other locks are committed after that, by whoever meets them first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from sulina.errors import SulinaError
from sulina.objects.outcomes import TemporaryFailure
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv import methods
from sulina.objects.tikv.failures import Committed, Conflict, RegionFailure, of_key
from sulina.objects.tikv.locks import LockResolver, locked
from sulina.objects.tikv.placement import Placement
from sulina.objects.tikv.regions import Region, Regions
from sulina.objects.tikv.snapshot import Snapshot
from sulina.runtime.seam import Clock

_PUT: Final = 0
_DELETE: Final = 1
_BATCH_BYTES: Final = 1 << 20
"""In one request, which becomes one entry of a region's log (8 MiB by default there)."""
_LOCK_MS: Final = 5000
"""A lock is held for this long after it was taken, unless the transaction ends."""
_EXPIRED: Final = 5


class Cluster:
    """Snapshots and transactions of a TiKV cluster."""

    def __init__(self, placement: Placement, regions: Regions, clock: Clock) -> None:
        self.placement = placement
        self.regions = regions
        self.locks = LockResolver(regions, placement)
        self.clock = clock

    async def snapshot(self) -> Snapshot:
        """What is committed now."""
        return Snapshot(await self.placement.timestamp(), self.regions, self.locks)

    async def begin(self) -> Transaction:
        """A transaction that starts now."""
        began = self.clock.now()
        return Transaction(self, await self.snapshot(), began)


class Transaction:
    """Use it once. Memory is bounded by what it writes."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, began: float) -> None:
        self.snapshot = snapshot
        self._cluster = cluster
        self._regions = cluster.regions
        self._began = began
        self._writes: dict[bytes, bytes | None] = {}

    def put(self, key: bytes, value: bytes) -> None:
        """Set a key when the transaction commits."""
        self._writes[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key when the transaction commits."""
        self._writes[key] = None

    async def commit(self, primary: bytes) -> None:
        """Apply all changes; ``primary`` is one of their keys.

        Raises ``TemporaryFailure`` if it was not committed, or if nobody knows: begin another
        transaction, which sees what became of this one.
        """
        others = [key for key in self._writes if key != primary]
        try:
            await self._prewrite(others, primary)
            await self._prewrite([primary], primary)
            committed_at = await self._commit_primary(primary)
        except BaseException:
            with suppress(SulinaError, TemporaryFailure, Committed):
                # If the primary is rolled back it can never be committed, so the others follow.
                await self._roll_back([primary])
                await self._roll_back(others)
            raise
        # Failures here are mended by whoever reads the keys.
        with suppress(SulinaError, TemporaryFailure):
            await self._commit(others, committed_at)

    async def _prewrite(self, keys: Sequence[bytes], primary: bytes) -> None:
        mutations = _mutations(keys, self._writes)

        async def send(region: Region, batch: Sequence[pb.Mutation]) -> None:
            elapsed = round((self._cluster.clock.now() - self._began) * 1000)
            request = pb.PrewriteRequest(
                mutations=batch,
                primary_lock=primary,
                start_version=self.snapshot.timestamp,
                lock_ttl=elapsed + _LOCK_MS,
                txn_size=len(self._writes),
            )
            answer = await self._regions.ask(region, methods.PREWRITE, request, pb.PrewriteAnswer)
            for error in answer.errors:
                if not error.HasField("locked"):
                    raise of_key(error)
                await self._cluster.locks.resolve(error.locked)
            if answer.errors:
                raise RegionFailure(str(locked(answer.errors[0].locked)), stale=False)

        await self._regions.each(
            mutations,
            lambda each: each.key,
            lambda each: len(each.key) + len(each.value),
            _BATCH_BYTES,
            send,
        )

    async def _commit_primary(self, primary: bytes) -> int:
        for _ in range(_EXPIRED):
            now = await self._cluster.placement.timestamp()
            try:
                await self._commit([primary], now)
            except _CommitTooEarly:
                continue
            return now
        raise Conflict("TiKV found the time of the commit too early again and again")

    async def _commit(self, keys: Sequence[bytes], committed_at: int) -> None:
        async def send(region: Region, batch: Sequence[bytes]) -> None:
            request = pb.CommitRequest(
                start_version=self.snapshot.timestamp, keys=batch, commit_version=committed_at
            )
            answer = await self._regions.ask(region, methods.COMMIT, request, pb.DoneAnswer)
            if answer.HasField("error"):
                if answer.error.HasField("commit_ts_expired"):
                    raise _CommitTooEarly
                raise of_key(answer.error)

        await self._regions.each(keys, lambda key: key, len, _BATCH_BYTES, send)

    async def _roll_back(self, keys: Sequence[bytes]) -> None:
        async def send(region: Region, batch: Sequence[bytes]) -> None:
            request = pb.RollbackRequest(start_version=self.snapshot.timestamp, keys=batch)
            answer = await self._regions.ask(region, methods.ROLLBACK, request, pb.DoneAnswer)
            if answer.HasField("error"):
                raise Committed

        await self._regions.each(keys, lambda key: key, len, _BATCH_BYTES, send)


class _CommitTooEarly(Exception):
    """A reader that saw the lock moved the earliest time of the commit."""


def _mutations(keys: Sequence[bytes], writes: Mapping[bytes, bytes | None]) -> list[pb.Mutation]:
    found: list[pb.Mutation] = []
    for key in keys:
        value = writes[key]
        operation = _DELETE if value is None else _PUT
        found.append(pb.Mutation(op=operation, key=key, value=value or b""))
    return found
