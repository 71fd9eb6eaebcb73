"""The brokers of a cluster over HTTP. Any of them answers for all, so any that answers will do.

A request that changes nothing is sent to the next address when one does not answer. Any other is
sent again only if nothing of it was sent: what may have happened is not repeated.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from functions.parts.http_event import HttpAnswer, HttpRequest
from sulina.errors import Refused, Unavailable, UnknownOutcome

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PASSED_ON: Final = ("accept", "content-type", "origin", "sulina-")
_PASSED_BACK: Final = ("allow", "cache-control", "content-", "retry-after", "vary", "www-auth")
_MOST_BYTES: Final = 5 << 20
"""Of an answer; Lambda takes 6 MiB, and what is encoded is a third longer than it was."""


class Brokers:
    """Asks the brokers at some addresses, ``http://host:port`` divided by commas.

    A name that stands for several addresses is tried at each of them.
    """

    def __init__(self, urls: str, seconds: float) -> None:
        """``seconds`` is how long each of them may take. Raises ``Refused`` for wrong URLs."""
        self._urls = [urlsplit(url.strip()) for url in urls.split(",")]
        self._seconds = seconds
        for url in self._urls:
            if url.scheme not in ("http", "https") or not url.hostname:
                raise Refused(
                    f"{urls!r} are no brokers: write http://host:port, with commas between"
                )

    def ask(self, request: HttpRequest, token: str = "") -> HttpAnswer:
        """The answer of the first that answers, whatever it is.

        Raises ``Unavailable`` if none does, and ``UnknownOutcome`` if one got a request that
        changes something and did not answer.
        """
        failures = []
        for url in self._urls:
            connection = self._connection(url.scheme, str(url.hostname), url.port)
            sent = False
            try:
                connection.connect()
                sent = True
                return self._send(connection, request, token)
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{url.netloc}: {error}")
                if sent and request.method not in _SAFE:
                    raise UnknownOutcome(
                        f"{url.netloc} did not answer ({error}): look at the outcome first"
                    ) from None
            finally:
                connection.close()
        raise Unavailable("no broker answers: " + "; ".join(failures))

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._seconds)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)

    def _send(
        self, connection: http.client.HTTPConnection, request: HttpRequest, token: str
    ) -> HttpAnswer:
        headers = _those(request.headers, _PASSED_ON)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        target = f"{request.path}?{request.query}" if request.query else request.path
        connection.request(request.method, target, request.body or None, headers)
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            text = "the answer is longer than a function can give: ask for less at a time"
            return HttpAnswer(502, {"Content-Type": "text/plain"}, text.encode())
        return HttpAnswer(
            response.status, _those(dict(response.headers.items()), _PASSED_BACK), body
        )


def _those(headers: Mapping[str, str], beginnings: tuple[str, ...]) -> dict[str, str]:
    found = {name: value for name, value in headers.items() if name.lower().startswith(beginnings)}
    return {name: value for name, value in found.items() if name.lower() != "content-length"}
