"""Single HTTP calls to a provider of identities, without any package."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from sulina.errors import Refused, Unavailable

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 20
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to another host, with the secrets of the form."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_web_address(url: str, what: str) -> str:
    """Return ``url`` if nobody on the way can read or change what it serves, or raise
    ``Refused``: it must use https, except on the loopback."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or not url.isprintable() or parts.username is not None:
        raise Refused(f"{what} {url!r} is not a web address")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise Refused(f"{what} {url} does not use https: only a provider on this machine may")
    return url


def call_web(url: str, form: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """GET ``url``, or POST ``form`` to it; returns the status and the JSON object of the answer.

    Blocks for at most ten seconds for each step. Raises ``Unavailable``, and ``Refused`` for an
    answer that is not JSON.
    """
    host = urlsplit(url).hostname or ""
    handlers: list[Any] = [_NoRedirects]
    if host in LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    data = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(url, data, {"Accept": "application/json"})
    try:
        try:
            answer = urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error  # errors of OAuth are JSON, too
        with answer:
            body = answer.read(_MOST_BYTES)
            status = int(answer.status or 0)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise Unavailable(f"no answer from {host} ({why}): try again") from None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"{host} answered {status} without JSON: is {url} the right address?")
    return status, found
