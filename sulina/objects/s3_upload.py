"""Multipart upload of an object to S3, several parts at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from sulina.errors import SulinaError
from sulina.objects.outcomes import UploadGoneError
from sulina.objects.parts import chained, send_all
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
        self._place["UploadId"], etags = begun["UploadId"], dict[int, str]()
        try:
            size = await send_all(
                self._name,
                chained(first, rest),
                lambda number, data: self._send(number + 1, data, etags),
                self._settings,
                _MAX_PARTS,
            )
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
        return str(done["ETag"]), size

    async def _send(self, number: int, data: bytes, etags: dict[int, str]) -> None:
        answer = await self._ask(
            self._name,
            lambda: self._client.upload_part(**self._place, PartNumber=number, Body=data),
        )
        etags[number] = str(answer["ETag"])

    async def _take_back(self) -> None:
        """Abort with few attempts, since the caller waits; stale uploads are removed later."""
        with suppress(SulinaError, UploadGoneError):
            await self._ask(
                self._name,
                lambda: self._client.abort_multipart_upload(**self._place),
                attempts=2,
            )
