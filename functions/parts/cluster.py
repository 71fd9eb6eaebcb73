"""Asks the cluster, for functions outside of its network: they call the function ``discovery``.

``SULINA_DISCOVERY`` names it. Without it, ``SULINA_BROKERS`` has the URLs of brokers within reach,
and they are asked themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from functions.parts.aws import client
from functions.parts.brokers import Brokers
from functions.parts.environment import given, needed
from functions.parts.http_event import HttpAnswer, HttpRequest
from sulina.errors import NotFound, Refused, Unavailable

_SECONDS: Final = 12.0
_NOT_FOUND: Final = "/docs#not-found"


class Cluster:
    """The brokers' HTTP interface, from wherever the function is."""

    def __init__(self, send: Callable[[HttpRequest], HttpAnswer]) -> None:
        self._send = send

    def get(self, path: str, query: str = "") -> Any:
        """What the brokers say at a path.

        Raises ``NotFound`` only if a broker said that the thing itself does not exist, and
        ``Unavailable`` for everything that says nothing about it.
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


def cluster() -> Cluster:
    """The cluster that the environment names. Raises ``Refused`` if it names none."""
    if name := given("SULINA_DISCOVERY"):
        return Cluster(lambda request: _through(name, request))
    return Cluster(Brokers(needed("SULINA_BROKERS"), _SECONDS).ask)


def _through(name: str, request: HttpRequest) -> HttpAnswer:
    payload = json.dumps(request.to_event()).encode()
    try:
        called = client("lambda").invoke(FunctionName=name, Payload=payload)
        said = json.loads(called["Payload"].read())
    except (ClientError, BotoCoreError, ValueError) as error:
        raise Unavailable(f"the function {name} can't be called: {error}") from None
    if called.get("FunctionError"):
        raise Unavailable(f"the function {name} failed: {said!r:.500}")
    try:
        return HttpAnswer.from_event(said)
    except Refused as error:
        raise Unavailable(f"{name}: {error}") from None
