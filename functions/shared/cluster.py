"""Queries the cluster from functions outside the VPC, by calling the function ``discovery``.

``SULINA_DISCOVERY`` is its name. If it is not set, ``SULINA_BROKERS`` must list broker URLs, which
are called directly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.aws import client
from functions.shared.brokers import BrokerClient
from functions.shared.environment import optional
from functions.shared.http_event import HttpAnswer, HttpRequest
from sulina.errors import NotFound, Refused, Unavailable

_SECONDS: Final = 12.0
_NOT_FOUND: Final = "/docs#not-found"


class ClusterClient:
    """The brokers' HTTP API, called directly or through ``discovery``."""

    def __init__(self, send: Callable[[HttpRequest], HttpAnswer]) -> None:
        self._send = send

    def get(self, path: str, query: str = "") -> Any:
        """The brokers' response to ``GET path``.

        Raises ``NotFound`` only if a broker states that the resource does not exist, and
        ``Unavailable`` for every other failure.
        """
        answer = self._send(HttpRequest("GET", path, query))
        try:
            found = json.loads(answer.body)
        except ValueError:
            raise Unavailable(f"{path}: {answer.status} without JSON") from None
        if answer.status == 200:
            return found
        detail = str(found.get("detail", found)) if isinstance(found, dict) else str(found)
        if answer.status == 404 and isinstance(found, dict) and found.get("type") == _NOT_FOUND:
            raise NotFound(detail)
        raise Unavailable(f"{path}: {answer.status}, {detail}")


def cluster() -> ClusterClient:
    """The cluster that the environment names. Raises ``Refused`` if there is none."""
    if name := optional("SULINA_DISCOVERY"):
        return ClusterClient(lambda request: _through(name, request))
    return ClusterClient(BrokerClient.from_environment(_SECONDS).ask)


def _through(name: str, request: HttpRequest) -> HttpAnswer:
    payload = json.dumps(request.to_event()).encode()
    try:
        called = client("lambda").invoke(FunctionName=name, Payload=payload)
        result = json.loads(called["Payload"].read())
    except (ClientError, BotoCoreError, ValueError) as error:
        raise Unavailable(f"calling the function {name} failed: {error}") from None
    if called.get("FunctionError"):
        raise Unavailable(f"the function {name} failed: {result!r:.500}")
    try:
        return HttpAnswer.from_event(result)
    except Refused as error:
        raise Unavailable(f"{name}: {error}") from None
