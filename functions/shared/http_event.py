"""HTTP requests and responses as Lambda events (payload format 2.0).

Function URLs and API Gateway's HTTP APIs use this format; functions that query the cluster through
``discovery`` build such events themselves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from sulina.errors import Refused

_DEFAULT_STAGE = "$default"
_AS_IT_IS = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. ``path`` is percent-encoded; header names are lowercase."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> HttpRequest:
        """Raises ``Refused`` if the event is not a request."""
        try:
            context = event["requestContext"]
            method, path = str(context["http"]["method"]), str(event["rawPath"])
        except (KeyError, TypeError):
            raise Refused(
                "the event is not an HTTP request (payload format 2.0): call the function's URL"
            ) from None
        stage = str(context.get("stage", _DEFAULT_STAGE))
        if stage != _DEFAULT_STAGE:
            path = path.removeprefix(f"/{stage}")
        text = event.get("body") or ""
        encoded = bool(event.get("isBase64Encoded"))
        return cls(
            method.upper(),
            quote(path or "/", safe=_AS_IT_IS),
            str(event.get("rawQueryString", "")),
            {str(name).lower(): str(value) for name, value in event.get("headers", {}).items()},
            base64.b64decode(text) if encoded else str(text).encode(),
        )

    def to_event(self) -> dict[str, Any]:
        """The event from which :meth:`from_event` restores the request."""
        return {
            "version": "2.0",
            "rawPath": self.path,
            "rawQueryString": self.query,
            "headers": dict(self.headers),
            "requestContext": {"http": {"method": self.method}, "stage": _DEFAULT_STAGE},
            "body": base64.b64encode(self.body).decode(),
            "isBase64Encoded": True,
        }


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to_event(self) -> dict[str, Any]:
        """What the handler returns to Lambda."""
        return {
            "statusCode": self.status,
            "headers": dict(self.headers),
            "body": base64.b64encode(self.body).decode(),
            "isBase64Encoded": True,
        }

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> HttpAnswer:
        """From another function's result. Raises ``Refused`` if it is not an HTTP response."""
        if "statusCode" not in event:
            raise Refused(f"the function did not return an HTTP response but {dict(event)!r:.500}")
        text = str(event.get("body", ""))
        body = base64.b64decode(text) if event.get("isBase64Encoded") else text.encode()
        return cls(int(event["statusCode"]), dict(event.get("headers", {})), body)
