"""Sends HTTP requests to the brokers; any broker can answer any request.

If a broker does not answer, a read is sent to the next one. A request that changes something is
only sent to the next one if the connection failed, because it may otherwise have succeeded.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from functions.shared.environment import optional, required
from functions.shared.http_event import HttpAnswer, HttpRequest
from sulina.errors import Refused, Unavailable, UnknownOutcome

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REQUEST_HEADERS: Final = ("accept", "content-type", "origin", "sulina-")
_RESPONSE_HEADERS: Final = ("allow", "cache-control", "content-", "retry-after", "vary", "www-auth")
_MAX_BYTES: Final = 5 << 20
"""The maximum size of a response; Lambda's limit is 6 MiB after encoding, which adds a third."""


class BrokerClient:
    """Sends requests to brokers, given as a comma-separated list of ``http://host:port``.

    If a name resolves to several addresses, each is tried.
    """

    def __init__(self, urls: str, seconds: float, authorities: str = "") -> None:
        """``seconds`` is the timeout per broker; ``authorities`` (PEM) sign their certificates, by
        default those of the system. Raises ``Refused`` for invalid URLs and certificates.
        """
        try:
            self._tls = ssl.create_default_context(cadata=authorities or None)
        except ssl.SSLError as error:
            raise Refused(
                f"SULINA_BROKERS_CA cannot be used ({error}): it must be certificates in PEM format"
            ) from None
        self._urls = [urlsplit(url.strip()) for url in urls.split(",")]
        self._seconds = seconds
        for url in self._urls:
            if url.scheme not in ("http", "https") or not url.hostname:
                raise Refused(
                    f"{urls!r} is not a comma-separated list of broker URLs such as "
                    "http://host:8080"
                )

    @classmethod
    def from_environment(cls, seconds: float) -> BrokerClient:
        """For ``SULINA_BROKERS`` and ``SULINA_BROKERS_CA``. Raises ``Refused``."""
        return cls(required("SULINA_BROKERS"), seconds, optional("SULINA_BROKERS_CA"))

    def ask(self, request: HttpRequest, token: str = "") -> HttpAnswer:
        """The response of the first broker that answers, whatever its status.

        Raises ``Unavailable`` if none answers, and ``UnknownOutcome`` if a broker may have received
        a request that changes something but did not answer.
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
                        f"{url.netloc} did not answer ({error}): check whether the request "
                        "succeeded before you repeat it"
                    ) from None
            finally:
                connection.close()
        raise Unavailable("no broker answers: " + "; ".join(failures))

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._seconds)
        return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=self._tls)

    def _send(
        self, connection: http.client.HTTPConnection, request: HttpRequest, token: str
    ) -> HttpAnswer:
        headers = _select(request.headers, _REQUEST_HEADERS)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        target = f"{request.path}?{request.query}" if request.query else request.path
        connection.request(request.method, target, request.body or None, headers)
        response = connection.getresponse()
        body = response.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            text = "the response exceeds the limit of a Lambda function: request less at a time"
            return HttpAnswer(502, {"Content-Type": "text/plain"}, text.encode())
        return HttpAnswer(
            response.status, _select(dict(response.headers.items()), _RESPONSE_HEADERS), body
        )


def _select(headers: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    found = {name: value for name, value in headers.items() if name.lower().startswith(prefixes)}
    return {name: value for name, value in found.items() if name.lower() != "content-length"}
