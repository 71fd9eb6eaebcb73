"""Reads of one moment: everything that was committed before a timestamp, and nothing later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv import methods
from sulina.objects.tikv.failures import RegionFailure, of_key
from sulina.objects.tikv.locks import LockResolver, locked
from sulina.objects.tikv.regions import Region, Regions

_BATCH: Final = 8
"""Values in one answer: with chunks of 256 KiB, 2 MiB."""
_SCAN: Final = 256
"""Keys in one answer of a scan. One answer may hold that many locks."""


class Snapshot:
    """Reads at ``timestamp``. Raises ``TemporaryFailure``."""

    def __init__(self, timestamp: int, regions: Regions, locks: LockResolver) -> None:
        self.timestamp = timestamp
        self._regions = regions
        self._locks = locks

    async def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Values are never empty."""
        request = pb.GetRequest(key=key, version=self.timestamp)

        async def send(region: Region) -> pb.GetAnswer:
            answer = await self._regions.ask(region, methods.GET, request, pb.GetAnswer)
            if answer.HasField("error"):
                await self._clear([answer.error])
            return answer

        answer = await self._regions.at(key, send)
        return answer.value or None

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that exist."""
        found: dict[bytes, bytes] = {}

        async def send(region: Region, batch: Sequence[bytes]) -> None:
            request = pb.BatchGetRequest(keys=batch, version=self.timestamp)
            answer = await self._regions.ask(region, methods.BATCH_GET, request, pb.BatchGetAnswer)
            await self._clear([answer.error] if answer.HasField("error") else [])
            await self._clear([pair.error for pair in answer.pairs if pair.HasField("error")])
            found.update((pair.key, pair.value) for pair in answer.pairs)

        await self._regions.each(keys, lambda key: key, lambda _: 1, _BATCH, send)
        return found

    async def scan(
        self, start: bytes, end: bytes, limit: int, *, keys_only: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """The first ``limit`` keys and values from ``start`` up to but not including ``end``."""
        found: list[tuple[bytes, bytes]] = []
        at: bytes | None = start
        while at is not None and at < end and len(found) < limit:
            wanted = min(limit - len(found), _SCAN)
            pairs, at = await self._page(at, end, wanted, keys_only)
            found += pairs
        return found

    async def _page(
        self, start: bytes, end: bytes, limit: int, keys_only: bool
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Keys and values of one region, and where to go on."""

        async def send(region: Region) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
            request = pb.ScanRequest(
                start_key=start,
                end_key=region.cut(end),
                limit=limit,
                version=self.timestamp,
                key_only=keys_only,
            )
            answer = await self._regions.ask(region, methods.SCAN, request, pb.ScanAnswer)
            await self._clear([answer.error] if answer.HasField("error") else [])
            await self._clear([pair.error for pair in answer.pairs if pair.HasField("error")])
            pairs = [(pair.key, pair.value) for pair in answer.pairs]
            return pairs, pairs[-1][0] + b"\0" if len(pairs) == limit else region.next_key

        return await self._regions.at(start, send)

    async def _clear(self, errors: Sequence[pb.KeyError]) -> None:
        """Resolve the locks, then raise ``RegionFailure``, so that the request is repeated."""
        if not errors:
            return
        for error in errors:
            if not error.HasField("locked"):
                raise of_key(error)
            await self._locks.resolve(error.locked)
        raise RegionFailure(str(locked(errors[0].locked)), stale=False)
