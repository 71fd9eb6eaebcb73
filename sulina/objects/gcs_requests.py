"""Requests to the JSON API of Google Cloud Storage, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from sulina.errors import NotFound, Refused
from sulina.objects.outcomes import RangeError, TakenError, TemporaryFailure, UploadGoneError
from sulina.objects.retry import Retrier

_T = TypeVar("_T")

ENDPOINT: Final = "https://storage.googleapis.com"
RESUME: Final = 308
"""More of the upload is wanted."""
_GOOD: Final = frozenset({200, 201, 204, 206, RESUME})
_BUSY: Final = frozenset({408, 429})
_SERVER: Final = 500


class Tokens(Protocol):
    """Where the headers come from that say who we are."""

    async def headers(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """To a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class GcsRequests:
    """Makes requests for one bucket."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        tokens: Tokens,
        retrier: Retrier,
        bucket: str,
        endpoint: str,
    ) -> None:
        self._session = session
        self._tokens = tokens
        self._retrier = retrier
        self.bucket = bucket
        self._endpoint = endpoint.rstrip("/")

    def address(self, kind: str, key_name: str = "", /, **query: str | int) -> str:
        """Of the bucket's objects, or of one; ``kind`` is empty, ``upload`` or ``download``."""
        place = f"{self._endpoint}{kind and '/'}{kind}/storage/v1/b/{self.bucket}/o"
        if key_name:
            place += f"/{quote(key_name, safe='')}"
        return f"{place}?{urlencode(query)}" if query else place

    async def ask(self, key: str, attempt: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        """The outcome of ``attempt``, which makes requests, after as many as it takes."""
        what = f"a request for {key!r} in the bucket {self.bucket}"
        return await self._retrier(what, attempt, attempts)

    async def send(
        self,
        method: str,
        url: str,
        key: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One attempt. Raises ``TemporaryFailure`` and the errors that can't pass."""
        try:
            async with self._session.request(
                method,
                URL(url, encoded=True),
                data=body,
                headers={**await self._tokens.headers(), **(headers or {})},
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            raise TemporaryFailure(
                f"the connection failed ({str(error) or type(error).__name__})"
            ) from error
        if answer.status not in _GOOD:
            raise self._meaning(answer.status, content, key)
        return Answer(answer.status, answer.headers, content)

    def _meaning(self, status: int, content: bytes, key: str) -> Exception:
        """Of an answer that says no."""
        text = content[:200].decode(errors="replace")
        if status in _BUSY or (status >= _SERVER and status != HTTPStatus.NOT_IMPLEMENTED):
            return TemporaryFailure(f"the store answered {status} {text}".rstrip())
        match status:
            case HTTPStatus.PRECONDITION_FAILED:
                return TakenError()
            case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return RangeError()
            case HTTPStatus.NOT_FOUND:
                return NotFound(f"there is no object {key} in the bucket {self.bucket}")
            case HTTPStatus.GONE | 499:  # no such upload any more, or taken back
                return UploadGoneError()
            case HTTPStatus.UNAUTHORIZED:
                return Refused(
                    f"the bucket {self.bucket} does not know these credentials: set "
                    "GOOGLE_APPLICATION_CREDENTIALS to the file of a service account that it knows"
                )
            case HTTPStatus.FORBIDDEN:
                return Refused(
                    f"these credentials may not do this with {key} in the bucket {self.bucket}: "
                    "give them the role Storage Object Admin on it"
                )
        return Refused(f"the bucket {self.bucket} refused a request for {key}: {status} {text}")


def no_bucket(bucket: str) -> Refused:
    """For a bucket that is not there."""
    return Refused(
        f"there is no bucket {bucket}: make it, or name another one, or another endpoint, in the "
        "URL"
    )


def described(content: bytes) -> Any:
    """The JSON of an answer. Raises ``TemporaryFailure`` if it is invalid, as from a proxy."""
    try:
        return json.loads(content)
    except ValueError:
        raise TemporaryFailure("the store's answer can't be understood") from None
