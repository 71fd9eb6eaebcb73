"""Objects in S3, or in a compatible store, through aioboto3.

A put sends ``If-None-Match: *``, so that only one of several concurrent writers succeeds, and a
unique upload id in the object's metadata: if a response is lost and a retry finds that the object
exists, the id shows whether this put created it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aioboto3
from aiobotocore.config import AioConfig

from sulina.errors import NotFound, SulinaError
from sulina.objects.http_ranges import read_range, read_tail
from sulina.objects.keeping import Keeping
from sulina.objects.outcomes import TakenError, UploadGoneError
from sulina.objects.parts import in_parts, take
from sulina.objects.retry import Retrier
from sulina.objects.s3_errors import translate
from sulina.objects.s3_keeping import kept_by
from sulina.objects.s3_upload import S3Upload
from sulina.objects.store import (
    ObjectInfo,
    ObjectSettings,
    check_key,
)
from sulina.objects.upload_id import UPLOAD_ID, check_ours, new_upload_id
from sulina.runtime.seam import Clock, Randomness

_T = TypeVar("_T")

_CONNECTIONS: Final = 64
_CONNECT_SECONDS: Final = 10.0
_LOOKS: Final = 2
"""Attempts to learn what the bucket keeps of deleted objects."""


@dataclass(frozen=True, slots=True)
class S3Place:
    """The location of the objects."""

    bucket: str
    prefix: str = ""
    """Without leading and trailing slashes."""
    endpoint: str | None = None
    region: str | None = None


class S3Store:
    """``ObjectStore`` over a bucket. Use ``open_s3``."""

    def __init__(
        self,
        client: Any,
        place: S3Place,
        clock: Clock,
        random: Randomness,
        settings: ObjectSettings,
        closing: AsyncExitStack,
    ) -> None:
        self._client = client
        self._bucket = place.bucket
        self._prefix = f"{place.prefix}/" if place.prefix else ""
        self._clock = clock
        self._random = random
        self._settings = settings
        self._retrier = Retrier(clock, random, settings)
        self._closing = closing

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        upload_id = new_upload_id(self._random)
        try:
            async with aclosing(in_parts(chunks, self._settings.part_bytes)) as parts:
                first = await take(parts, 2)
                if len(first) == 1:
                    etag, size = await self._put_whole(key, first[0], upload_id), len(first[0])
                else:
                    name = self._prefix + key
                    upload = S3Upload(self._ask, self._client, self._bucket, name, self._settings)
                    etag, size = await upload.run(upload_id, first, parts)
        except (TakenError, UploadGoneError):
            return await self._ours(key, upload_id)
        return ObjectInfo(key, size, etag.strip('"'), self._clock.wall_us())

    async def get(self, key: str, start: int, end: int) -> bytes:
        return await read_range(self._read, self.info, key, start, end)

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        return await read_tail(self._read, key, length)

    async def info(self, key: str) -> ObjectInfo | None:
        try:
            found = await self._head(key)
        except NotFound:
            # The response to HEAD has no body: the bucket itself may be missing.
            await self.list(key, limit=1)
            return None
        return _info(key, found["ContentLength"], found)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        start = self._prefix + after if after else ""
        while len(found) < limit:
            count = min(self._settings.page_keys, limit - len(found))
            page = await self._ask(prefix, self._page(prefix, start, count))
            contents = page.get("Contents", [])
            found += (
                _info(row["Key"].removeprefix(self._prefix), row["Size"], row) for row in contents
            )
            if not page.get("IsTruncated") or not contents:
                break
            start = contents[-1]["Key"]
        return found

    async def delete(self, key: str) -> None:
        await self._ask(
            key, lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)
        )

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        before = self._clock.wall_us() / 1e6 - older_than_seconds
        aborted, marker = 0, {"KeyMarker": "", "UploadIdMarker": ""}
        while True:
            page = await self._ask(prefix, self._uploads(prefix, marker))
            for row in page.get("Uploads", []):
                ours = row["Key"].startswith(self._prefix + prefix)
                if ours and row["Initiated"].timestamp() <= before:
                    aborted += await self._abort(row["Key"], row["UploadId"])
            if not page.get("IsTruncated"):
                return aborted
            marker = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

    async def keeping(self) -> Keeping:
        """See ``KeepsDeleted``."""

        async def ask(method: str) -> Any:
            return await self._ask(
                "", lambda: getattr(self._client, method)(Bucket=self._bucket), _LOOKS
            )

        return await kept_by(ask, self._bucket, self._prefix)

    async def close(self) -> None:
        await self._closing.aclose()

    # ---- requests ----

    async def _ask(self, key: str, request: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        """The result of a request, retried after temporary failures."""

        async def attempt() -> _T:
            try:
                return await request()
            except SulinaError:
                raise
            except Exception as error:
                raise translate(error, self._bucket, key) from error

        what = f"a request for {key!r} in the bucket {self._bucket}"
        return await self._retrier(what, attempt, attempts)

    async def _put_whole(self, key: str, data: bytes, upload_id: str) -> str:
        answer = await self._ask(
            key,
            lambda: self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=data,
                IfNoneMatch="*",
                Metadata={UPLOAD_ID: upload_id},
            ),
        )
        return str(answer["ETag"])

    async def _ours(self, key: str, upload_id: str) -> ObjectInfo:
        """The existing object, if an attempt of this put created it and its response was lost."""
        try:
            found = await self._head(key)
        except NotFound:
            found = {}
        check_ours(key, upload_id, found.get("Metadata"))
        return _info(key, found["ContentLength"], found)

    async def _head(self, key: str) -> Any:
        return await self._ask(
            key, lambda: self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        )

    async def _read(self, key: str, wanted: str) -> tuple[bytes, int]:
        """The bytes of a range, and the size of the object."""

        async def request() -> tuple[bytes, int]:
            answer = await self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, Range=wanted
            )
            async with answer["Body"] as body:
                data: bytes = await body.read()
            if len(data) != answer["ContentLength"]:
                raise ConnectionError("the response ended early")
            size = str(answer.get("ContentRange", "")).rpartition("/")[2]
            return data, int(size) if size else len(data)

        return await self._ask(key, request)

    def _page(self, prefix: str, start: str, count: int) -> Callable[[], Awaitable[Any]]:
        return lambda: self._client.list_objects_v2(
            Bucket=self._bucket,
            Prefix=self._prefix + prefix,
            StartAfter=start,
            MaxKeys=count,
        )

    def _uploads(self, prefix: str, marker: dict[str, str]) -> Callable[[], Awaitable[Any]]:
        return lambda: self._client.list_multipart_uploads(
            Bucket=self._bucket, Prefix=self._prefix + prefix, **marker
        )

    async def _abort(self, name: str, upload: str) -> bool:
        try:
            await self._ask(
                name,
                lambda: self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=name, UploadId=upload
                ),
            )
        except (NotFound, UploadGoneError):
            return False  # completed or aborted meanwhile
        return True


async def open_s3(
    place: S3Place, clock: Clock, random: Randomness, settings: ObjectSettings
) -> S3Store:
    """A store over the bucket. Sends no request. Raises ``Refused`` for invalid settings."""
    deadline = settings.deadline_seconds
    config = AioConfig(
        connect_timeout=min(_CONNECT_SECONDS, deadline),
        read_timeout=deadline,
        max_pool_connections=_CONNECTIONS,
        retries={"total_max_attempts": 1},  # the retrier counts attempts
        # Host names that contain the bucket's name resolve only on AWS.
        s3={"addressing_style": "path" if place.endpoint else "auto"},
    )
    closing = AsyncExitStack()
    try:
        client = await closing.enter_async_context(
            aioboto3.Session().client(
                "s3", endpoint_url=place.endpoint, region_name=place.region, config=config
            )
        )
    except Exception as error:
        await closing.aclose()
        raise translate(error, place.bucket, "") from error
    return S3Store(client, place, clock, random, settings, closing)


def _info(key: str, size: int, found: Any) -> ObjectInfo:
    modified = round(found["LastModified"].timestamp() * 1e6)
    return ObjectInfo(key, size, str(found["ETag"]).strip('"'), modified)
