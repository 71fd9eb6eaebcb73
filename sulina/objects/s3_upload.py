"""Multipart upload of an object to S3, several parts at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from sulina.errors import SulinaError, TooLarge
from sulina.objects.outcomes import UploadGoneError
from sulina.objects.store import ObjectSettings
from sulina.objects.upload_id import UPLOAD_ID

_T = TypeVar("_T")

_MAX_PARTS: Final = 10_000
"""S3's own limit."""


class Ask(Protocol):
    """Sends a request with retries, and translates its errors."""

    async def __call__(
        self, key: str, request: Callable[[], Awaitable[_T]], attempts: int = 0
    ) -> _T: ...


class S3Upload:
    """One upload. If it fails, it is aborted, unless S3 cannot be reached."""

    def __init__(
        self, ask: Ask, client: Any, bucket: str, name: str, settings: ObjectSettings
    ) -> None:
        self._ask = ask
        self._client = client
        self._place = {"Bucket": bucket, "Key": name}
        self._name = name
        self._settings = settings
        self._size = 0

    async def run(
        self, upload_id: str, first: list[bytes], rest: AsyncIterator[bytes]
    ) -> tuple[str, int]:
        """Upload all parts and complete the object. Returns its ETag and size.

        Removes parts from ``first`` as they are sent, to free their memory. Raises ``TakenError``
        if the object exists, and ``UploadGoneError`` if the upload was aborted elsewhere, or
        completed by an attempt whose response was lost.
        """
        begun = await self._ask(
            self._name,
            lambda: self._client.create_multipart_upload(
                **self._place, Metadata={UPLOAD_ID: upload_id}
            ),
        )
        self._place["UploadId"] = begun["UploadId"]
        try:
            etags = await self._send_all(first, rest)
            done = await self._ask(
                self._name,
                lambda: self._client.complete_multipart_upload(
                    **self._place,
                    MultipartUpload={
                        "Parts": [
                            {"ETag": etag, "PartNumber": number}
                            for number, etag in sorted(etags.items())
                        ]
                    },
                    IfNoneMatch="*",
                ),
            )
        except BaseException as error:
            if not isinstance(error, UploadGoneError):
                await self._take_back()
            raise
        return str(done["ETag"]), self._size

    async def _send_all(self, first: list[bytes], rest: AsyncIterator[bytes]) -> dict[int, str]:
        """Send all parts. Returns their ETags by number."""
        etags: dict[int, str] = {}
        slots = asyncio.Semaphore(self._settings.concurrency)

        async def send(number: int, data: bytes) -> None:
            try:
                etags[number] = await self._send(number, data)
            finally:
                slots.release()

        try:
            async with asyncio.TaskGroup() as sending:
                number = 0
                async for data in _chained(first, rest):
                    number += 1
                    if number > _MAX_PARTS:
                        raise TooLarge(
                            f"{self._name} has more than {_MAX_PARTS} parts of "
                            f"{self._settings.part_bytes} bytes: raise ObjectSettings.part_bytes"
                        )
                    self._size += len(data)
                    await slots.acquire()
                    sending.create_task(send(number, data))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return etags

    async def _send(self, number: int, data: bytes) -> str:
        answer = await self._ask(
            self._name,
            lambda: self._client.upload_part(**self._place, PartNumber=number, Body=data),
        )
        return str(answer["ETag"])

    async def _take_back(self) -> None:
        """Abort with few attempts, since the caller waits; stale uploads are removed later."""
        with suppress(SulinaError, UploadGoneError):
            await self._ask(
                self._name,
                lambda: self._client.abort_multipart_upload(**self._place),
                attempts=2,
            )


async def _chained(first: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while first:
        yield first.pop(0)
    async for part in rest:
        yield part
