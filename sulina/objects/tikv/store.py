"""Objects in TiKV: a record for each object, its bytes in chunks, changed by short transactions.

A small object is created by one transaction. A larger one is written part by part below an upload's
record, which the last transaction replaces with the object's: no reader sees anything before. See
docs/objects.md for the layout.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeVar

from sulina.errors import AlreadyExists, CorruptEntry, NotFound
from sulina.objects.parts import chained, in_parts, take
from sulina.objects.retry import Retrier
from sulina.objects.store import (
    ObjectInfo,
    ObjectSettings,
    check_key,
    check_length,
    check_range,
    ends_early,
)
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv.keys import Layout
from sulina.objects.tikv.links import Links
from sulina.objects.tikv.placement import Placement
from sulina.objects.tikv.regions import Regions
from sulina.objects.tikv.snapshot import Snapshot
from sulina.objects.tikv.transactions import Cluster, Transaction
from sulina.objects.tikv.uploads import Uploads
from sulina.objects.upload_id import new_upload_id
from sulina.runtime.seam import Clock, Randomness
from sulina.runtime.tls_files import TlsFiles

_T = TypeVar("_T")
CHUNK_BYTES: Final = 256 << 10
"""Of a value, well below the limits of entries (8 MiB) and of a row in TiDB (6 MiB)."""
MAX_PART_BYTES: Final = 8 << 20
"""Written by one transaction."""
_SMALL: Final = MAX_PART_BYTES // CHUNK_BYTES
"""Up to this many chunks are deleted together with their object."""


class TikvStore:
    """``ObjectStore`` over a TiKV cluster. Use ``open_tikv``."""

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        prefix: str,
        random: Randomness,
        settings: ObjectSettings,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._layout = Layout(prefix)
        self._random = random
        self._settings = settings
        self._retrier = Retrier(cluster.clock, random, settings)
        self._uploads = Uploads(cluster, self._layout, self._retrier)
        self._chunk_bytes = min(CHUNK_BYTES, settings.part_bytes)
        wanted = min(settings.part_bytes, MAX_PART_BYTES)
        self._part_bytes = wanted - wanted % self._chunk_bytes

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        token = bytes.fromhex(new_upload_id(self._random))
        record = pb.ObjectRecord(token=token, chunk_bytes=self._chunk_bytes)
        async with aclosing(in_parts(chunks, self._part_bytes)) as parts:
            first = await take(parts, 2)
            if len(first) == 1:
                _complete(record, hashlib.blake2b(first[0], digest_size=16), self._now())
                record.size = len(first[0])
                values = self._cut(first[0])
                await self._ask(key, lambda: self._create(key, record, values))
            else:
                await self._upload(key, record, chained(first, parts))
        return _info(key, record)

    async def _create(self, key: str, record: pb.ObjectRecord, values: Sequence[bytes]) -> None:
        """Create an object in one transaction. May be repeated."""
        transaction = await self._cluster.begin()
        at = self._layout.object(key)
        if await self._exists(transaction, key, record.token):
            return
        for number, value in enumerate(values):
            transaction.put(self._layout.chunk(record.token, number), value)
        transaction.put(at, record.SerializeToString())
        await transaction.commit(at)

    async def _upload(self, key: str, record: pb.ObjectRecord, parts: AsyncIterator[bytes]) -> None:
        """Create an object part by part."""
        digest = hashlib.blake2b(digest_size=16)
        await self._uploads.begin(key, record.token)
        try:
            async for part in parts:
                number = record.size // self._chunk_bytes
                await self._uploads.write(key, record.token, number, self._cut(part))
                digest.update(part)
                record.size += len(part)
            _complete(record, digest, self._now())
            await self._ask(key, lambda: self._finish(key, record))
        except BaseException:
            await self._uploads.give_up(key, record.token)
            raise

    async def _finish(self, key: str, record: pb.ObjectRecord) -> None:
        """Replace the upload's record with the object's. May be repeated."""
        transaction = await self._cluster.begin()
        if await self._exists(transaction, key, record.token):
            return
        await self._uploads.require(transaction, key, record.token)
        at = self._layout.object(key)
        transaction.put(at, record.SerializeToString())
        transaction.delete(self._layout.upload(record.token))
        await transaction.commit(at)

    async def _exists(self, transaction: Transaction, key: str, token: bytes) -> bool:
        """Whether an earlier attempt created it. Raises ``AlreadyExists`` if another put did."""
        found = await self._record(transaction.snapshot, key)
        if found is not None and found.token != token:
            raise AlreadyExists(f"the object {key} already exists")
        return found is not None

    async def get(self, key: str, start: int, end: int) -> bytes:
        check_range(key, start, end)
        data, size = await self._ask(key, lambda: self._read(key, start, end))
        if end > size:
            raise ends_early(key, end, size)
        return data

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        check_length(key, length)
        return await self._ask(key, lambda: self._read(key, -length, None))

    async def _read(self, key: str, start: int, end: int | None) -> tuple[bytes, int]:
        """Bytes of an object and its size. A negative start counts from the end."""
        snapshot = await self._cluster.snapshot()
        record = await self._record(snapshot, key)
        if record is None:
            raise NotFound(f"the object {key} does not exist in TiKV")
        start = max(record.size + start, 0) if start < 0 else start
        end = record.size if end is None else end
        if end > record.size or start == end:
            return b"", record.size
        step = record.chunk_bytes
        first, last = start // step, (end - 1) // step
        keys = [self._layout.chunk(record.token, number) for number in range(first, last + 1)]
        found = await snapshot.get_many(keys)
        pieces = [found.get(each, b"") for each in keys]
        held = min((last + 1) * step, record.size) - first * step
        if sum(map(len, pieces)) != held:
            raise CorruptEntry(
                f"chunks of {key} are missing in TiKV: another program deleted keys of Sulina's"
            )
        pieces[-1] = pieces[-1][: end - last * step]
        pieces[0] = pieces[0][start - first * step :]
        return b"".join(pieces), record.size

    async def info(self, key: str) -> ObjectInfo | None:
        async def attempt() -> pb.ObjectRecord | None:
            return await self._record(await self._cluster.snapshot(), key)

        record = await self._ask(key, attempt)
        return None if record is None else _info(key, record)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        start, end = self._layout.objects(prefix, after)
        while len(found) < limit:
            count = min(self._settings.page_keys, limit - len(found))
            rows = await self._ask(prefix, partial(self._rows, start, end, count))
            for at, value in rows:
                record = pb.ObjectRecord.FromString(value)
                found.append(_info(self._layout.object_key(at), record))
            if len(rows) < count:
                break
            start = rows[-1][0] + b"\0"
        return found

    async def _rows(self, start: bytes, end: bytes, count: int) -> Sequence[tuple[bytes, bytes]]:
        return await (await self._cluster.snapshot()).scan(start, end, count)

    async def delete(self, key: str) -> None:
        large: set[bytes] = set()
        await self._ask(key, lambda: self._delete(key, large))
        for token in large:
            await self._uploads.remove(key, token)

    async def _delete(self, key: str, large: set[bytes]) -> None:
        """Delete an object; adds its token to ``large`` if its chunks remain to be deleted."""
        transaction = await self._cluster.begin()
        record = await self._record(transaction.snapshot, key)
        if record is None:
            return
        at, count = self._layout.object(key), -(-record.size // record.chunk_bytes)
        transaction.delete(at)
        if count <= _SMALL:
            for number in range(count):
                transaction.delete(self._layout.chunk(record.token, number))
        else:
            large.add(record.token)
            self._uploads.mark(transaction, key, record.token)
        await transaction.commit(at)

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return await self._uploads.abort_stale(prefix, older_than_seconds)

    async def close(self) -> None:
        await self._links.close()

    # ---- helpers ----

    async def _record(self, snapshot: Snapshot, key: str) -> pb.ObjectRecord | None:
        value = await snapshot.get(self._layout.object(key))
        return None if value is None else pb.ObjectRecord.FromString(value)

    def _cut(self, part: bytes) -> Sequence[bytes]:
        step = self._chunk_bytes
        return [part[start : start + step] for start in range(0, len(part), step)]

    def _now(self) -> int:
        return self._cluster.clock.wall_us()

    async def _ask(self, key: str, attempt: Callable[[], Awaitable[_T]]) -> _T:
        return await self._retrier(f"a request for {key!r} in TiKV", attempt)


def open_tikv(
    addresses: Sequence[str],
    prefix: str,
    tls: TlsFiles | None,
    clock: Clock,
    random: Randomness,
    settings: ObjectSettings,
) -> TikvStore:
    """A store over the cluster with PD at ``addresses``. Sends no request.

    Raises ``Refused`` if the TLS files cannot be used.
    """
    links = Links(tls, settings.deadline_seconds)
    placement = Placement(addresses, links, clock, random)
    regions = Regions(placement, links, clock, random)
    cluster = Cluster(placement, regions, clock)
    return TikvStore(cluster, links, prefix, random, settings)


def _complete(record: pb.ObjectRecord, digest: hashlib.blake2b, now: int) -> None:
    record.etag, record.modified_us = digest.hexdigest(), now


def _info(key: str, record: pb.ObjectRecord) -> ObjectInfo:
    return ObjectInfo(key, record.size, record.etag, record.modified_us)
