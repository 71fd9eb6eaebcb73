"""Resumable upload of an object to Google Cloud Storage, one part at a time.

If a request fails, the next attempt asks the store how many bytes arrived and sends the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from sulina.errors import NotFound, SulinaError
from sulina.objects.gcs_requests import RESUME, GcsRequests, described, no_bucket
from sulina.objects.outcomes import TemporaryFailure, UploadGoneError
from sulina.objects.upload_id import UPLOAD_ID

UNIT: Final = 256 << 10
"""The size of every part except the last must be a multiple of this."""


class GcsUpload:
    """One upload. If it fails, it is aborted, unless the store cannot be reached."""

    def __init__(self, requests: GcsRequests, key: str, name: str) -> None:
        self._requests = requests
        self._key = key
        self._name = name
        self._place = ""
        self._sent = 0

    async def run(self, upload_id: str, parts: AsyncIterator[bytes]) -> Any:
        """Upload all parts. Returns the object's metadata.

        Raises ``TakenError`` if the object exists, and ``UploadGoneError`` if the upload was
        aborted elsewhere, or completed by an attempt whose response was lost.
        """
        await self._begin(upload_id)
        try:
            part = await anext(parts)
            async for following in parts:
                await self._send(part, last=False)
                part = following
            return await self._send(part, last=True)
        except BaseException as error:
            if not isinstance(error, UploadGoneError):
                await self._take_back()
            raise

    async def _begin(self, upload_id: str) -> None:
        url = self._requests.address(
            "upload", uploadType="resumable", name=self._name, ifGenerationMatch=0
        )
        body = json.dumps({"name": self._name, "metadata": {UPLOAD_ID: upload_id}}).encode()
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        try:
            answer = await self._requests.ask(
                self._key,
                lambda: self._requests.send("POST", url, self._key, body=body, headers=headers),
            )
        except NotFound:
            raise no_bucket(self._requests.bucket) from None
        self._place = answer.headers["Location"]

    async def _send(self, part: bytes, *, last: bool) -> Any:
        """Send a part. Returns the object's metadata after the last one."""
        start, end = self._sent, self._sent + len(part)
        total = str(end) if last else "*"
        known = True

        async def attempt() -> Any:
            nonlocal known
            if not known:
                if (done := await self._look(total)) is not None:
                    return done
                known = True
            if not start <= self._sent <= end:
                raise UploadGoneError
            data, first = part[self._sent - start :], self._sent
            known = False
            here = f"{first}-{end - 1}" if data else "*"
            done = await self._put(data, f"bytes {here}/{total}")
            if done is None and self._sent < end:
                raise TemporaryFailure("the store saved only some bytes of a part")
            return done

        done = await self._requests.ask(self._key, attempt)
        if last and done is None:
            raise UploadGoneError
        return done

    async def _look(self, total: str) -> Any:
        """Query how many bytes arrived. Returns the object's metadata if it is complete."""
        self._sent = 0
        return await self._put(b"", f"bytes */{total}")

    async def _put(self, data: bytes, covers: str) -> Any:
        try:
            answer = await self._requests.send(
                *("PUT", self._place, self._key), body=data, headers={"Content-Range": covers}
            )
        except NotFound:
            raise UploadGoneError from None
        if answer.status != RESUME:
            return described(answer.body)
        there = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("Range", ""))
        self._sent = int(there.group(1)) + 1 if there else 0
        return None

    async def _take_back(self) -> None:
        """Abort with few attempts, since the caller waits; uploads expire after a week."""
        with suppress(SulinaError, UploadGoneError):
            await self._requests.ask(
                self._key,
                lambda: self._requests.send("DELETE", self._place, self._key),
                attempts=2,
            )
