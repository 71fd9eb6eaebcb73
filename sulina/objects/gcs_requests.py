"""Requests to the JSON API of Google Cloud Storage, and translation of its errors."""

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
"""The status that requests the next part of an upload."""
_GOOD: Final = frozenset({200, 201, 204, 206, RESUME})
_BUSY: Final = frozenset({408, 429})
_SERVER: Final = 500


class Tokens(Protocol):
    """Provides the authentication headers."""

    async def headers(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class GcsRequests:
    """Sends requests for one bucket."""

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
        """The URL of all objects, or of one; ``kind`` is "", ``upload`` or ``download``."""
        place = f"{self._endpoint}{kind and '/'}{kind}/storage/v1/b/{self.bucket}/o"
        if key_name:
            place += f"/{quote(key_name, safe='')}"
        return f"{place}?{urlencode(query)}" if query else place

    async def ask(self, key: str, attempt: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        """The result of ``attempt``, retried after temporary failures."""
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
        """One attempt. Raises ``TemporaryFailure``, and final errors."""
        try:
            async with self._session.request(
                method,
                URL(url, encoded=True),
                data=body,
                headers={**await self._tokens.headers(), **(headers or {})},
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
        except aiohttp.InvalidURL:
            raise Refused(
                f"{self._endpoint!r} is not an endpoint: use ?endpoint=http://host:port in the URL"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TemporaryFailure(
                f"the connection failed ({str(error) or type(error).__name__})"
            ) from error
        if answer.status not in _GOOD:
            raise self._meaning(answer.status, content, key)
        return Answer(answer.status, answer.headers, content)

    def _meaning(self, status: int, content: bytes, key: str) -> Exception:
        """The error for an error response."""
        text = content[:200].decode(errors="replace")
        if status in _BUSY or (status >= _SERVER and status != HTTPStatus.NOT_IMPLEMENTED):
            return TemporaryFailure(f"the store answered {status} {text}".rstrip())
        match status:
            case HTTPStatus.PRECONDITION_FAILED:
                return TakenError()
            case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return RangeError()
            case HTTPStatus.NOT_FOUND:
                return NotFound(f"the object {key} does not exist in the bucket {self.bucket}")
            case HTTPStatus.GONE | 499:  # the upload no longer exists, or was aborted
                return UploadGoneError()
            case HTTPStatus.UNAUTHORIZED:
                return Refused(
                    f"the bucket {self.bucket} rejects these credentials: set "
                    "GOOGLE_APPLICATION_CREDENTIALS to the file of an authorized service account"
                )
            case HTTPStatus.FORBIDDEN:
                return Refused(
                    f"these credentials lack permissions for {key} in the bucket {self.bucket}: "
                    "grant them the role Storage Object Admin on it"
                )
        return Refused(f"the bucket {self.bucket} refused a request for {key}: {status} {text}")


def no_bucket(bucket: str) -> Refused:
    """The error for a missing bucket."""
    return Refused(
        f"the bucket {bucket} does not exist: create it, or use another bucket or endpoint in the "
        "URL"
    )


def described(content: bytes) -> Any:
    """The JSON of an answer. Raises ``TemporaryFailure`` if it is invalid, as from a proxy."""
    try:
        return json.loads(content)
    except ValueError:
        raise TemporaryFailure("the store's response is invalid") from None
