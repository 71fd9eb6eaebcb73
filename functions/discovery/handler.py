"""The function ``discovery``: the brokers' HTTP application for callers outside of the network.

The function has no routes of its own but one: every request is handed to a broker, whose
application answers it (docs/adr/0014). ``GET /discovery`` is answered here, so that clients learn
where the cluster is even while no broker answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from functions.parts.aws import client
from functions.parts.brokers import Brokers
from functions.parts.environment import given, needed, wanted
from functions.parts.http_event import HttpAnswer, HttpRequest
from sulina.errors import Refused, Retriable, SulinaError, Unavailable

_SECONDS: Final = 12.0
"""For each broker; two fit into the function's time."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_tokens: dict[str, str] = {}
"""Secrets that were read, by their names, for the life of this process."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer one request; what goes wrong is an answer, too."""
    try:
        return _answer(HttpRequest.from_event(event)).to_event()
    except SulinaError as error:
        return _problem(error).to_event()


def _answer(request: HttpRequest) -> HttpAnswer:
    if request.path == "/discovery" and request.method in _READING:
        return _json(200, _places())
    if wanted("SULINA_READ_ONLY") and request.method not in _READING:
        detail = "this function only reads: change it at the brokers"
        return _json(403, {"type": "/docs#denied", "title": "Read only", "detail": detail})
    brokers = Brokers(needed("SULINA_BROKERS"), _SECONDS)
    answer = brokers.ask(request, _token())
    if answer.status == 401 and _tokens:
        # The secret may have been changed since it was read.
        _tokens.clear()
        answer = brokers.ask(request, _token())
    return answer


def _places() -> dict[str, str | None]:
    """Where clients connect to."""
    return {
        "cluster": given("SULINA_CLUSTER") or None,
        "url": given("SULINA_URL") or None,
        "grpc": given("SULINA_GRPC_URL") or None,
        "http": given("SULINA_HTTP_URL") or None,
    }


def _token() -> str:
    name = given("SULINA_TOKEN_SECRET")
    if not name:
        return ""
    if name not in _tokens:
        try:
            found = client("secretsmanager").get_secret_value(SecretId=name)
        except (ClientError, BotoCoreError) as error:
            raise Unavailable(f"the token in {name} can't be read: {error}") from None
        _tokens[name] = str(found["SecretString"])
    return _tokens[name]


def _problem(error: SulinaError) -> HttpAnswer:
    """As brokers answer with problems (RFC 9457)."""
    if isinstance(error, Retriable):
        kind, status, title = "unavailable", 503, "Something needed can't be reached"
    elif isinstance(error, Refused):
        kind, status, title = "refused", 400, "The request is wrong or not allowed"
    else:
        kind, status, title = "unknown-outcome", 504, "It may have happened or not"
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
