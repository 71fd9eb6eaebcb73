"""Objects in Google Cloud Storage, through its JSON API.

A put sends ``ifGenerationMatch=0``, so that only one of several concurrent writers succeeds, and a
unique upload id in the object's metadata, which shows whether this put created an existing object.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

import aiohttp

from sulina.errors import NotFound
from sulina.objects.gcs_auth import GoogleTokens, NoTokens
from sulina.objects.gcs_requests import ENDPOINT, GcsRequests, described, no_bucket
from sulina.objects.gcs_upload import UNIT, GcsUpload
from sulina.objects.http_ranges import read_range, read_tail
from sulina.objects.keeping import Keeping
from sulina.objects.outcomes import TakenError, TemporaryFailure, UploadGoneError
from sulina.objects.parts import in_parts
from sulina.objects.retry import Retrier
from sulina.objects.store import (
    ObjectInfo,
    ObjectSettings,
    check_key,
)
from sulina.objects.upload_id import check_ours, new_upload_id
from sulina.runtime.seam import Clock, Randomness

_CONNECTIONS: Final = 32
_FIELDS: Final = "nextPageToken,items(name,size,etag,updated)"


class GcsStore:
    """``ObjectStore`` over a bucket. Use ``open_gcs``."""

    def __init__(
        self,
        requests: GcsRequests,
        session: aiohttp.ClientSession,
        prefix: str,
        random: Randomness,
        settings: ObjectSettings,
    ) -> None:
        self._requests = requests
        self._session = session
        self._prefix = f"{prefix}/" if prefix else ""
        self._random = random
        self._settings = settings

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        upload_id = new_upload_id(self._random)
        part_bytes = max(self._settings.part_bytes // UNIT, 1) * UNIT
        try:
            async with aclosing(in_parts(chunks, part_bytes)) as parts:
                found = await GcsUpload(self._requests, key, self._prefix + key).run(
                    upload_id, parts
                )
        except (TakenError, UploadGoneError):
            found = await self._describe(key)
            check_ours(key, upload_id, None if found is None else found.get("metadata", {}))
        return _info(key, found)

    async def get(self, key: str, start: int, end: int) -> bytes:
        return await read_range(self._read, self.info, key, start, end)

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        return await read_tail(self._read, key, length)

    async def info(self, key: str) -> ObjectInfo | None:
        found = await self._describe(key)
        return None if found is None else _info(key, found)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        query: dict[str, str | int] = {"prefix": self._prefix + prefix, "fields": _FIELDS}
        if after:
            query["startOffset"] = self._prefix + after
        while len(found) < limit:
            # One more than needed: the first may be ``after`` itself.
            query["maxResults"] = min(self._settings.page_keys, limit - len(found) + 1)
            try:
                page = await self._json("GET", self._requests.address("", "", **query), prefix)
            except NotFound:
                raise no_bucket(self._requests.bucket) from None
            for row in page.get("items", []):
                key = row["name"].removeprefix(self._prefix)
                if key > after:
                    found.append(_info(key, row))
            if not page.get("nextPageToken"):
                break
            query["pageToken"] = page["nextPageToken"]
        return found[:limit]

    async def delete(self, key: str) -> None:
        url = self._requests.address("", self._prefix + key)
        try:
            await self._requests.ask(key, lambda: self._requests.send("DELETE", url, key))
        except NotFound:
            return

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return 0  # the service deletes them after a week, and cannot list them

    async def keeping(self) -> Keeping:
        """See ``KeepsDeleted``. Its rights to objects do not include to look."""
        return Keeping(
            "it is not known whether the bucket keeps versions or deleted objects, as new buckets "
            "do for a week: look with `gcloud storage buckets describe`",
            None,
        )

    async def close(self) -> None:
        await self._session.close()

    # ---- requests ----

    async def _json(self, method: str, url: str, key: str) -> Any:
        async def attempt() -> Any:
            return described((await self._requests.send(method, url, key)).body)

        return await self._requests.ask(key, attempt)

    async def _describe(self, key: str) -> Any:
        """The object's metadata, or None if it does not exist."""
        try:
            return await self._json("GET", self._requests.address("", self._prefix + key), key)
        except NotFound:
            await self.list(key, limit=1)  # raises if the bucket is missing
            return None

    async def _read(self, key: str, wanted: str) -> tuple[bytes, int]:
        """The bytes of a range, and the size of the object."""
        url = self._requests.address("download", self._prefix + key, alt="media")
        headers = {"Range": wanted, "Accept-Encoding": "identity"}

        async def attempt() -> tuple[bytes, int]:
            answer = await self._requests.send("GET", url, key, headers=headers)
            covers, _, size = answer.headers.get("Content-Range", "").partition("/")
            if not size.isdigit():
                raise TemporaryFailure("the store's response has no valid Content-Range header")
            first, _, last = covers.removeprefix("bytes ").partition("-")
            if len(answer.body) != int(last) - int(first) + 1:
                raise TemporaryFailure("the response ended early")
            return answer.body, int(size)

        try:
            return await self._requests.ask(key, attempt)
        except NotFound:
            await self._describe(key)  # raises if the bucket is missing
            raise


async def open_gcs(
    bucket: str,
    prefix: str,
    endpoint: str | None,
    clock: Clock,
    random: Randomness,
    settings: ObjectSettings,
) -> GcsStore:
    """A store over the bucket. Sends no request. An ``endpoint`` is an emulator's: requests to it
    have no credentials."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
        timeout=aiohttp.ClientTimeout(total=settings.deadline_seconds),
    )
    requests = GcsRequests(
        session,
        NoTokens() if endpoint else GoogleTokens(),
        Retrier(clock, random, settings),
        bucket,
        endpoint or ENDPOINT,
    )
    return GcsStore(requests, session, prefix, random, settings)


def _info(key: str, found: Any) -> ObjectInfo:
    modified = datetime.fromisoformat(found["updated"]).timestamp()
    return ObjectInfo(key, int(found["size"]), str(found["etag"]), round(modified * 1e6))
