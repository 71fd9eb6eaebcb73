"""Objects in Redis, which determines their durability.

An object's parts are strings under a unique token; at the end a script, which Redis runs
atomically, makes them an object. All keys have the store's prefix in braces, so that in a cluster
they are on one node:

* ``{prefix}object:<key>``: a hash with the object's size, part size, token, tag and time
* ``{prefix}keys``: a sorted set of the keys, for listing in order
* ``{prefix}part:<token>:<number>``: the bytes
* ``{prefix}uploads``: a sorted set of the unfinished uploads, by start time
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, TypeVar

import redis.asyncio
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from sulina.errors import (
    AlreadyExists,
    CorruptEntry,
    NotFound,
    Refused,
    StorageFull,
    SulinaError,
    Unavailable,
)
from sulina.objects.outcomes import TemporaryFailure
from sulina.objects.parts import in_parts
from sulina.objects.redis_scripts import ABORT, ABSENT, COMMIT, DELETE, LOST, PART, READ
from sulina.objects.retry import Retrier
from sulina.objects.store import (
    ObjectInfo,
    ObjectSettings,
    check_key,
    check_length,
    check_range,
    ends_early,
)
from sulina.objects.upload_id import UPLOAD_ID_LENGTH, new_upload_id
from sulina.runtime.seam import Clock, Randomness

_T = TypeVar("_T")

_CONNECTIONS: Final = 32
_CONNECT_SECONDS: Final = 10.0
_NOT_YET: Final = (
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
)
"""Answers of a server that is starting, or taking over from another one."""
_UPLOADS: Final = 10_000
"""The maximum number of stale uploads that one call deletes."""


class RedisStore:
    """``ObjectStore`` over one Redis database. Closes ``client``."""

    def __init__(
        self,
        client: Any,
        prefix: str,
        clock: Clock,
        random: Randomness,
        settings: ObjectSettings,
    ) -> None:
        self._client = client
        self._prefix = f"{{{prefix}}}"
        self._clock = clock
        self._random = random
        self._settings = settings
        self._retrier = Retrier(clock, random, settings)
        self._scripts = {
            text: client.register_script(text) for text in (ABORT, COMMIT, DELETE, PART, READ)
        }

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        token = new_upload_id(self._random)
        digest, size, count = hashlib.blake2b(digest_size=16), 0, 0
        begun = {token + key: self._clock.wall_us()}
        await self._ask(key, lambda: self._client.zadd(self._prefix + "uploads", begun))
        try:
            async with aclosing(in_parts(chunks, self._settings.part_bytes)) as parts:
                async for part in parts:
                    await self._run(PART, key, token, count, part)
                    digest.update(part)
                    size, count = size + len(part), count + 1
            info = ObjectInfo(key, size, digest.hexdigest(), self._clock.wall_us())
            about = (size, self._settings.part_bytes, count, info.etag, info.modified_us)
            outcome = await self._run(COMMIT, key, token, *about)
            if outcome == 0:
                raise AlreadyExists(f"the object {key} already exists")
            if outcome != 1:
                raise Unavailable(f"the upload of {key} was aborted meanwhile: upload it again")
        except BaseException:
            with suppress(SulinaError):  # what remains is cleaned up as a stale upload
                await self._run(ABORT, key, token, attempts=2)
            raise
        return info

    async def get(self, key: str, start: int, end: int) -> bytes:
        check_range(key, start, end)
        data, size = await self._read(key, start, end - start)
        if end > size:
            raise ends_early(key, end, size)
        return data

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        check_length(key, length)
        return await self._read(key, -length, length)

    async def info(self, key: str) -> ObjectInfo | None:
        [found] = await self._infos([key])
        return found

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        start = b"(" + after.encode() if after >= prefix and after else b"[" + prefix.encode()
        end = b"(" + prefix.encode() + b"\xff"  # never part of UTF-8
        while len(found) < limit:
            count = min(self._settings.page_keys, limit - len(found))
            keys = await self._ask(prefix, self._page(start, end, count))
            found += [each for each in await self._infos([k.decode() for k in keys]) if each]
            if len(keys) < count:
                break
            start = b"(" + keys[-1]
        return found

    async def delete(self, key: str) -> None:
        await self._run(DELETE, key)

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        before = self._clock.wall_us() - round(older_than_seconds * 1e6)
        begun = await self._ask(
            prefix,
            lambda: self._client.zrange(
                self._prefix + "uploads", "-inf", before, byscore=True, offset=0, num=_UPLOADS
            ),
        )
        aborted = 0
        for member in begun:
            token, key = member[:UPLOAD_ID_LENGTH].decode(), member[UPLOAD_ID_LENGTH:].decode()
            if key.startswith(prefix):
                aborted += await self._run(ABORT, key, token)
        return aborted

    async def close(self) -> None:
        await self._client.aclose()

    # ---- requests ----

    async def _run(self, script: str, key: str, *arguments: object, attempts: int = 0) -> Any:
        """The result of a script for ``key``."""
        run = self._scripts[script]
        return await self._ask(
            key, lambda: run(keys=(self._prefix,), args=(key, *arguments)), attempts
        )

    async def _read(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        size, *pieces = await self._run(READ, key, start, length)
        if size == ABSENT:
            raise NotFound(f"the object {key} does not exist in Redis")
        if size == LOST:
            raise CorruptEntry(
                f"parts of {key} are missing in Redis: it must not evict keys (set "
                "maxmemory-policy noeviction)"
            )
        return b"".join(pieces), size

    async def _infos(self, keys: Sequence[str]) -> Sequence[ObjectInfo | None]:
        async def request() -> Any:
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.hmget(self._prefix + "object:" + key, "size", "etag", "modified")
            return await pipeline.execute()

        rows = await self._ask(keys[0], request) if keys else []
        return [
            None if row[0] is None else ObjectInfo(key, int(row[0]), row[1].decode(), int(row[2]))
            for key, row in zip(keys, rows, strict=True)
        ]

    def _page(self, start: bytes, end: bytes, count: int) -> Callable[[], Awaitable[Any]]:
        return lambda: self._client.zrange(
            self._prefix + "keys", start, end, bylex=True, offset=0, num=count
        )

    async def _ask(self, key: str, request: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        """The result of a request, retried after temporary failures."""

        async def attempt() -> _T:
            try:
                return await request()
            except (exceptions.RedisError, OSError) as error:
                raise _translated(error, key) from error

        return await self._retrier(f"a request for {key!r} in Redis", attempt, attempts)


def open_redis(
    url: str, prefix: str, clock: Clock, random: Randomness, settings: ObjectSettings
) -> RedisStore:
    """A store over the database of ``url``. Sends no request. Raises ``Refused`` for a bad URL."""
    deadline = settings.deadline_seconds
    try:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=deadline,
            socket_timeout=deadline,
            socket_connect_timeout=min(_CONNECT_SECONDS, deadline),
            retry=Retry(NoBackoff(), 0),  # the retrier counts attempts
        )
    except ValueError as error:
        raise Refused(
            f"the address of Redis is invalid ({error}): use "
            "redis://user:password@host:6379/0/prefix"
        ) from None
    client = redis.asyncio.Redis.from_pool(pool)
    return RedisStore(client, prefix, clock, random, settings)


def _translated(error: Exception, key: str) -> Exception:
    """The error to raise for ``error``."""
    text = str(error) or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return Refused(
            f"Redis rejected the user or password ({text}): put them into the URL, "
            "redis://user:password@host:port/0/prefix"
        )
    if isinstance(error, exceptions.OutOfMemoryError):
        return StorageFull(f"Redis has no memory left for {key}: raise its maxmemory")
    if isinstance(error, _NOT_YET) or text.startswith(("BUSY ", "NOREPLICAS ")):
        return TemporaryFailure(f"Redis is not ready ({text})")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return TemporaryFailure(f"the connection failed ({text})")
    if isinstance(error, exceptions.MovedError):
        return Refused(
            f"{key} is on another node of the Redis cluster ({text}): name that one in the URL"
        )
    return Refused(f"Redis refused a request for {key}: {text}")
