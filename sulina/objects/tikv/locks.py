"""Locks that other transactions left: wait for them, or finish what they began.

A transaction's primary lock decides about it. Once that has expired, whoever finds one of its locks
rolls it back; if the primary was committed, the other locks are committed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sulina.errors import Refused
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv import methods
from sulina.objects.tikv.failures import Conflict, of_key
from sulina.objects.tikv.placement import LOGICAL_BITS, Placement
from sulina.objects.tikv.regions import Region, Regions

_PAGE: Final = 256
_WHOLE_REGION: Final = 16
"""From this many locks of a transaction in a region on, all of them are resolved at once."""


class LockResolver:
    """Resolves the locks that requests meet."""

    def __init__(self, regions: Regions, placement: Placement) -> None:
        self._regions = regions
        self._placement = placement

    async def resolve(self, lock: pb.Lock) -> bool:
        """Commit or roll back a lock of a transaction that has ended.

        Returns False if the transaction may still be running: wait, then try again. Raises
        ``TemporaryFailure``.
        """
        if lock.use_async_commit:
            raise Refused(
                "another program wrote to Sulina's keys in TiKV: give it another prefix, or use "
                "another prefix in the URL"
            )
        now = await self._placement.timestamp()
        expired = (lock.lock_version >> LOGICAL_BITS) + lock.lock_ttl < now >> LOGICAL_BITS
        status = await self._status(lock, now, expired)
        if status is None or status.lock_ttl:
            return False
        request = pb.ResolveRequest(
            start_version=lock.lock_version, commit_version=status.commit_version
        )
        if lock.txn_size < _WHOLE_REGION:
            request.keys.append(lock.key)

        async def send(region: Region) -> None:
            answer = await self._regions.ask(region, methods.RESOLVE, request, pb.DoneAnswer)
            if answer.HasField("error"):
                raise of_key(answer.error)

        await self._regions.at(lock.key, send)
        return True

    async def resolve_old(self, start: bytes, end: bytes, before: int, limit: int) -> None:
        """Resolve locks of the range that transactions left which started before the timestamp
        ``before``, at most ``limit`` of them."""
        at: bytes | None = start
        while at is not None and at < end and limit > 0:
            locks, at = await self._old(at, end, before, min(limit, _PAGE))
            for lock in locks:
                await self.resolve(lock)
            limit -= len(locks)

    async def _old(
        self, start: bytes, end: bytes, before: int, limit: int
    ) -> tuple[Sequence[pb.Lock], bytes | None]:
        """Locks of one region, and where to go on."""

        async def send(region: Region) -> tuple[Sequence[pb.Lock], bytes | None]:
            request = pb.ScanLockRequest(
                max_version=before, start_key=start, end_key=region.cut(end), limit=limit
            )
            answer = await self._regions.ask(region, methods.SCAN_LOCK, request, pb.ScanLockAnswer)
            if answer.HasField("error"):
                raise of_key(answer.error)
            more = len(answer.locks) >= limit
            return answer.locks, answer.locks[-1].key + b"\0" if more else region.next_key

        return await self._regions.at(start, send)

    async def _status(self, lock: pb.Lock, now: int, expired: bool) -> pb.CheckTxnAnswer | None:
        """What became of the transaction; None if its primary lock may still come."""
        request = pb.CheckTxnRequest(
            primary_key=lock.primary_lock,
            lock_ts=lock.lock_version,
            current_ts=now,
            rollback_if_not_exist=expired,
            verify_is_primary=True,
        )

        async def send(region: Region) -> pb.CheckTxnAnswer:
            return await self._regions.ask(region, methods.CHECK_TXN, request, pb.CheckTxnAnswer)

        answer = await self._regions.at(lock.primary_lock, send)
        if answer.HasField("error"):
            if answer.error.HasField("txn_not_found"):
                return None
            raise of_key(answer.error)
        return answer


def locked(lock: pb.Lock) -> Conflict:
    """The failure if a lock stays."""
    return Conflict(f"another transaction holds a lock for {lock.lock_ttl} ms")
