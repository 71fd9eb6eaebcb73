"""Errors as HTTP tells them: problem details of RFC 9457, with the cause and the remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from broker_containers.schemas.errors import InvalidPayload
from broker_containers.security.errors import Denied, Unauthenticated
from sulina.errors import (
    AlreadyExists,
    Closed,
    CorruptEntry,
    Fenced,
    NotFound,
    Overloaded,
    Refused,
    Retriable,
    StorageFailed,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER = {"Retry-After": "1"}
_WHO = {"WWW-Authenticate": 'Bearer realm="sulina"'}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its name is the anchor in the documentation page."""

    name: str
    status: int
    title: str
    retriable: bool = False


UNAVAILABLE = Kind("unavailable", 503, "Something needed can't be reached", retriable=True)
UNKNOWN_OUTCOME = Kind("unknown-outcome", 504, "It may have happened or not")
_KINDS: dict[type[SulinaError], Kind] = {
    Unauthenticated: Kind("unauthenticated", 401, "Show a token that holds"),
    Denied: Kind("denied", 403, "The token is for something else"),
    InvalidPayload: Kind("invalid-payload", 422, "The message is not as its schema says"),
    NotFound: Kind("not-found", 404, "It does not exist"),
    AlreadyExists: Kind("already-exists", 409, "The name is taken"),
    TooLarge: Kind("too-large", 413, "Larger than a stated limit"),
    Closed: Kind("closed", 503, "The broker is stopping", retriable=True),
    Refused: Kind("refused", 400, "The request is wrong or not allowed"),
    StorageFull: Kind("storage-full", 507, "No space is left", retriable=True),
    StorageFailed: Kind("storage-failed", 503, "The storage failed", retriable=True),
    Overloaded: Kind("overloaded", 429, "A limit was reached", retriable=True),
    Unavailable: UNAVAILABLE,
    Retriable: Kind("retriable", 503, "It may succeed later", retriable=True),
    Fenced: Kind("fenced", 503, "Another broker took over", retriable=True),
    UnknownOutcome: UNKNOWN_OUTCOME,
    CorruptEntry: Kind("corrupt-entry", 500, "Stored bytes are damaged"),
}
INTERNAL = Kind("internal", 500, "The broker failed in an unexpected way")
NO_SUCH_PATH = Kind("no-such-path", 404, "There is nothing at this path")
WRONG_METHOD = Kind("wrong-method", 405, "The path does not take this method")
TOO_SLOW = Kind("too-slow", 408, "The request did not arrive in time")
OTHER_SITE = Kind("other-site", 403, "Another web site may not do this")
WRONG_MEDIA_TYPE = Kind("wrong-media-type", 415, "The body has the wrong type")
EXPECTATION = Kind("expectation-failed", 417, "The expectation can't be met")
TOO_MANY = Kind("too-many-connections", 503, "The broker has too many connections", retriable=True)

KINDS: tuple[Kind, ...] = (
    *_KINDS.values(),
    INTERNAL,
    NO_SUCH_PATH,
    WRONG_METHOD,
    TOO_SLOW,
    OTHER_SITE,
    WRONG_MEDIA_TYPE,
    EXPECTATION,
    TOO_MANY,
)


class Problem(Exception):
    """A refusal of the door itself, for which the errors of the core have no word."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def kind_of(error: SulinaError) -> Kind:
    """The kind of the nearest class that is known."""
    for base in type(error).__mro__:
        if issubclass(base, SulinaError) and base in _KINDS:
            return _KINDS[base]
    return INTERNAL


def content(kind: Kind, detail: str, instance: str = "") -> bytes:
    """The body of a problem."""
    body = {
        "type": f"/docs#{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "retriable": kind.retriable,
    }
    if instance:
        body["instance"] = instance
    return json.dumps(body).encode() + b"\n"


def answer(
    kind: Kind, detail: str, instance: str = "", headers: Mapping[str, str] | None = None
) -> web.Response:
    """The whole answer."""
    own = _RETRY_AFTER if kind.retriable else _WHO if kind.status == 401 else {}
    return web.Response(
        status=kind.status,
        body=content(kind, detail, instance),
        content_type=MEDIA_TYPE,
        headers={**own, **(headers or {})},
    )


def raw_answer(kind: Kind, detail: str) -> bytes:
    """The same for a connection that gets nothing else."""
    body = content(kind, detail)
    head = (
        f"HTTP/1.1 {kind.status} Refused\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
