"""The function ``discovery``: the brokers' HTTP API for callers outside the VPC.

It forwards every request to a broker (docs/adr/0014), except ``GET /discovery``, which it answers
itself, so that clients learn where to connect even while no broker answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.aws import client
from functions.shared.brokers import BrokerClient
from functions.shared.environment import flag, optional
from functions.shared.http_event import HttpAnswer, HttpRequest
from sulina.errors import Refused, Retriable, SulinaError, Unavailable

_SECONDS: Final = 12.0
"""The timeout per broker; the function's own timeout allows for two."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_tokens: dict[str, str] = {}
"""A cache of secrets by name, for the lifetime of this process."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer one request; errors become HTTP responses."""
    try:
        return _answer(HttpRequest.from_event(event)).to_event()
    except SulinaError as error:
        return _problem(error).to_event()


def _answer(request: HttpRequest) -> HttpAnswer:
    if request.path == "/discovery" and request.method in _READING:
        return _json(200, _endpoints())
    if flag("SULINA_READ_ONLY") and request.method not in _READING:
        detail = "this function accepts only reads: send the request to a broker"
        return _json(403, {"type": "/docs#denied", "title": "Read only", "detail": detail})
    brokers = BrokerClient.from_environment(_SECONDS)
    answer = brokers.ask(request, _token())
    if answer.status == 401 and _tokens:
        # The secret may have changed since it was read.
        _tokens.clear()
        answer = brokers.ask(request, _token())
    return answer


def _endpoints() -> dict[str, str | None]:
    """Where clients connect."""
    return {
        "cluster": optional("SULINA_CLUSTER") or None,
        "url": optional("SULINA_URL") or None,
        "grpc": optional("SULINA_GRPC_URL") or None,
        "http": optional("SULINA_HTTP_URL") or None,
    }


def _token() -> str:
    name = optional("SULINA_TOKEN_SECRET")
    if not name:
        return ""
    if name not in _tokens:
        try:
            found = client("secretsmanager").get_secret_value(SecretId=name)
        except (ClientError, BotoCoreError) as error:
            raise Unavailable(f"cannot read the token from the secret {name}: {error}") from None
        _tokens[name] = str(found["SecretString"])
    return _tokens[name]


def _problem(error: SulinaError) -> HttpAnswer:
    """A problem document (RFC 9457), as brokers send it."""
    if isinstance(error, Retriable):
        kind, status, title = "unavailable", 503, "A required service is unavailable"
    elif isinstance(error, Refused):
        kind, status, title = "refused", 400, "The request is invalid or not allowed"
    else:
        kind, status, title = "unknown-outcome", 504, "The request may or may not have succeeded"
    body = {
        "type": f"/docs#{kind}",
        "title": title,
        "status": status,
        "detail": str(error),
        "retriable": status == 503,
    }
    return _json(status, body, "application/problem+json")


def _json(status: int, value: Any, media: str = "application/json") -> HttpAnswer:
    return HttpAnswer(status, {"Content-Type": media}, json.dumps(value).encode() + b"\n")
