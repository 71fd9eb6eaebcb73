"""Uploads in several transactions, and the removal of the chunks that no object has.

While chunks exist that belong to no object, there is a record of their upload. Every part rewrites
it, and so does who gives the upload up: of two who do so at the same time one fails. So no chunk is
written after the upload was given up, and all can be found and deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from sulina.errors import SulinaError, TooLarge, Unavailable
from sulina.objects.retry import Retrier
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv.keys import MAX_CHUNKS, Layout
from sulina.objects.tikv.placement import LOGICAL_BITS
from sulina.objects.tikv.transactions import Cluster, Transaction

_T = TypeVar("_T")
_UPLOADS: Final = 10_000
"""The maximum number of stale uploads that one call deletes."""
_LOCKS: Final = 10_000
"""The maximum number of locks that one call resolves."""
_PAGE: Final = 256


class Uploads:
    """Every call may raise ``Unavailable`` and ``Refused``."""

    def __init__(self, cluster: Cluster, layout: Layout, retrier: Retrier) -> None:
        self._cluster = cluster
        self._layout = layout
        self._retrier = retrier

    async def begin(self, key: str, token: bytes) -> None:
        """Record a new upload of ``key``."""

        async def attempt() -> None:
            transaction = await self._cluster.begin()
            self._record(transaction, key, token, 0)
            await transaction.commit(self._layout.upload(token))

        await self._ask(key, attempt)

    async def write(self, key: str, token: bytes, number: int, values: Sequence[bytes]) -> None:
        """Write chunks, the first of which has this number, in one transaction."""
        if number + len(values) > MAX_CHUNKS:
            raise TooLarge(f"{key} has more than {MAX_CHUNKS} chunks")

        async def attempt() -> None:
            transaction = await self._cluster.begin()
            await self.require(transaction, key, token)
            for place, value in enumerate(values, number):
                transaction.put(self._layout.chunk(token, place), value)
            self._record(transaction, key, token, number + len(values))
            await transaction.commit(self._layout.upload(token))

        await self._ask(key, attempt)

    async def require(self, transaction: Transaction, key: str, token: bytes) -> None:
        """Raises ``Unavailable`` if the upload was given up. The transaction must change its
        record."""
        value = await transaction.snapshot.get(self._layout.upload(token))
        if value is None or pb.UploadRecord.FromString(value).aborted:
            raise Unavailable(f"the upload of {key} was aborted meanwhile: upload it again")

    def mark(self, transaction: Transaction, key: str, token: bytes) -> None:
        """Record, with the transaction, that the chunks are to be deleted."""
        self._record(transaction, key, token, 0, aborted=True)

    async def give_up(self, key: str, token: bytes) -> None:
        """Delete an upload that failed, unless it became an object after all.

        If that fails, the upload is left for ``abort_stale``.
        """
        with suppress(SulinaError):
            if await self._abort(key, token, attempts=2):
                await self.remove(key, token, attempts=2)

    async def remove(self, key: str, token: bytes, attempts: int = 0) -> None:
        """Delete the chunks of an aborted upload, then its record."""
        start, end = self._layout.chunks(token)
        at: bytes | None = start
        while at is not None:
            at = await self._ask(key, partial(self._remove_some, at, end), attempts)

        async def attempt() -> None:
            transaction = await self._cluster.begin()
            transaction.delete(self._layout.upload(token))
            await transaction.commit(self._layout.upload(token))

        await self._ask(key, attempt, attempts)

    async def abort_stale(self, prefix: str, older_than_seconds: float) -> int:
        """``ObjectStore.abort_stale_uploads``: by the time since the last part."""
        before = self._cluster.clock.wall_us() - round(older_than_seconds * 1e6)
        start, end = self._layout.uploads()
        count = 0
        while start < end and count < _UPLOADS:
            rows = await self._ask(prefix, partial(self._rows, start, end))
            for at, value in rows:
                record, token = pb.UploadRecord.FromString(value), self._layout.upload_token(at)
                if not record.key.startswith(prefix) or record.active_us > before:
                    continue
                if record.aborted or await self._abort(record.key, token, before=before):
                    await self.remove(record.key, token)
                    count += 1
            if len(rows) < _PAGE:
                break
            start = rows[-1][0] + b"\0"
        await self._ask(prefix, lambda: self._clear_locks(older_than_seconds))
        return count

    async def _clear_locks(self, older_than_seconds: float) -> None:
        """Roll back what processes left that ended in the middle of a transaction."""
        now = await self._cluster.placement.timestamp()
        before = now - (round(older_than_seconds * 1000) << LOGICAL_BITS)
        start, end = self._layout.everything()
        await self._cluster.locks.resolve_old(start, end, max(before, 0), _LOCKS)

    async def _rows(self, start: bytes, end: bytes) -> Sequence[tuple[bytes, bytes]]:
        return await (await self._cluster.snapshot()).scan(start, end, _PAGE)

    async def _abort(
        self, key: str, token: bytes, *, before: int | None = None, attempts: int = 0
    ) -> bool:
        """Mark an upload as aborted, unless it is gone, or was active after ``before``."""

        async def attempt() -> bool:
            transaction = await self._cluster.begin()
            value = await transaction.snapshot.get(self._layout.upload(token))
            if value is None:
                return False  # it became an object, or somebody else deleted it
            record = pb.UploadRecord.FromString(value)
            if before is not None and record.active_us > before and not record.aborted:
                return False
            if not record.aborted:
                self._record(transaction, key, token, record.chunks, aborted=True)
                await transaction.commit(self._layout.upload(token))
            return True

        return await self._ask(key, attempt, attempts)

    async def _remove_some(self, start: bytes, end: bytes) -> bytes | None:
        """Delete some chunks of an aborted upload; returns where to go on, or None."""
        transaction = await self._cluster.begin()
        rows = await transaction.snapshot.scan(start, end, _PAGE, keys_only=True)
        if not rows:
            return None
        for at, _ in rows:
            transaction.delete(at)
        await transaction.commit(rows[0][0])
        return rows[-1][0] + b"\0" if len(rows) == _PAGE else None

    def _record(
        self, transaction: Transaction, key: str, token: bytes, chunks: int, aborted: bool = False
    ) -> None:
        record = pb.UploadRecord(
            key=key, active_us=self._cluster.clock.wall_us(), chunks=chunks, aborted=aborted
        )
        transaction.put(self._layout.upload(token), record.SerializeToString())

    async def _ask(self, key: str, attempt: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        return await self._retrier(f"a request for {key!r} in TiKV", attempt, attempts)
