"""A request over HTTP as Lambda hands it over (payload format 2.0), and the answer to it.

Function URLs and API Gateway's HTTP APIs use the same form; other functions that ask about the
cluster make such events themselves.
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
    """One request. ``path`` is escaped as in a URL; names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> HttpRequest:
        """Raises ``Refused`` for an event that is no request."""
        try:
            context = event["requestContext"]
            method, path = str(context["http"]["method"]), str(event["rawPath"])
        except (KeyError, TypeError):
            raise Refused(
                "the event is no HTTP request (payload format 2.0): call the function by its URL"
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
        """The event that :meth:`from_event` reads."""
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
    """The answer to a request."""

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
        """What another function's handler returned. Raises ``Refused`` for anything else."""
        if "statusCode" not in event:
            raise Refused(f"the function did not answer a request but said {dict(event)!r:.500}")
        text = str(event.get("body", ""))
        body = base64.b64decode(text) if event.get("isBase64Encoded") else text.encode()
        return cls(int(event["statusCode"]), dict(event.get("headers", {})), body)
