"""Errors over HTTP: problem details of RFC 9457, with the cause and the remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from aiohttp import web

from broker_containers.operations.running import NeedsCluster
from broker_containers.quotas.quotas import QuotaExceeded
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
from sulina.operations.json_types import OMITTED, form_of

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER = {"Retry-After": "1"}
_WHO = {"WWW-Authenticate": 'Bearer realm="sulina"'}


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: its name is the anchor in the documentation page."""

    name: str
    status: int
    title: str
    retriable: bool = False


UNAVAILABLE = ProblemKind("unavailable", 503, "A required service can't be reached", retriable=True)
UNKNOWN_OUTCOME = ProblemKind("unknown-outcome", 504, "It may or may not have taken effect")
NO_SUCH_PATH = ProblemKind("no-such-path", 404, "There is nothing at this path")
_KINDS: dict[type[SulinaError], ProblemKind] = {
    Unauthenticated: ProblemKind("unauthenticated", 401, "A valid token is required"),
    Denied: ProblemKind("denied", 403, "The token does not allow this"),
    QuotaExceeded: ProblemKind("quota-exceeded", 403, "A quota would be exceeded"),
    InvalidPayload: ProblemKind("invalid-payload", 422, "The message does not match its schema"),
    NeedsCluster: NO_SUCH_PATH,
    NotFound: ProblemKind("not-found", 404, "It does not exist"),
    AlreadyExists: ProblemKind("already-exists", 409, "The name is taken"),
    TooLarge: ProblemKind("too-large", 413, "Larger than the limit"),
    Closed: ProblemKind("closed", 503, "The broker is stopping", retriable=True),
    Refused: ProblemKind("refused", 400, "The request is wrong or not allowed"),
    StorageFull: ProblemKind("storage-full", 507, "No space is left", retriable=True),
    StorageFailed: ProblemKind("storage-failed", 503, "The storage failed", retriable=True),
    Overloaded: ProblemKind("overloaded", 429, "A limit was reached", retriable=True),
    Unavailable: UNAVAILABLE,
    Retriable: ProblemKind("retriable", 503, "It may succeed later", retriable=True),
    Fenced: ProblemKind("fenced", 503, "Another broker took over", retriable=True),
    UnknownOutcome: UNKNOWN_OUTCOME,
    CorruptEntry: ProblemKind("corrupt-entry", 500, "Stored bytes are damaged"),
}
INTERNAL = ProblemKind("internal", 500, "The broker failed in an unexpected way")
WRONG_METHOD = ProblemKind("wrong-method", 405, "The path does not support this method")
TOO_SLOW = ProblemKind("too-slow", 408, "The request did not arrive in time")
OTHER_SITE = ProblemKind("other-site", 403, "Requests from this web site are not allowed")
OTHER_HOST = ProblemKind("other-host", 421, "The broker does not serve this host name")
WRONG_MEDIA_TYPE = ProblemKind("wrong-media-type", 415, "The body has the wrong type")
EXPECTATION = ProblemKind("expectation-failed", 417, "The expectation can't be met")
TOO_MANY = ProblemKind(
    "too-many-connections", 503, "The broker has too many connections", retriable=True
)

KINDS: tuple[ProblemKind, ...] = (
    *_KINDS.values(),
    INTERNAL,
    WRONG_METHOD,
    TOO_SLOW,
    OTHER_SITE,
    OTHER_HOST,
    WRONG_MEDIA_TYPE,
    EXPECTATION,
    TOO_MANY,
)


class Problem(Exception):
    """A refusal of the door itself, for which the core has no error."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def kind_of(error: SulinaError) -> ProblemKind:
    """The kind of the nearest known base class."""
    for base in type(error).__mro__:
        if issubclass(base, SulinaError) and base in _KINDS:
            return _KINDS[base]
    return INTERNAL


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """The body of an error."""

    type: Annotated[str, "Where the documentation explains this kind of problem."]
    title: str
    status: int
    detail: Annotated[str, "The cause and the remedy."]
    retriable: Annotated[bool, "Whether the same request may succeed later."]
    instance: Annotated[str | None, OMITTED, "The path of the request."] = None


_DETAILS: Final = form_of(ProblemDetails)


def content(kind: ProblemKind, detail: str, instance: str = "") -> bytes:
    """The body of a problem."""
    details = ProblemDetails(
        f"/docs#{kind.name}", kind.title, kind.status, detail, kind.retriable, instance or None
    )
    return json.dumps(_DETAILS.encode(details)).encode() + b"\n"


def answer(
    kind: ProblemKind, detail: str, instance: str = "", headers: Mapping[str, str] | None = None
) -> web.Response:
    """The whole answer."""
    own = _RETRY_AFTER if kind.retriable else _WHO if kind.status == 401 else {}
    return web.Response(
        status=kind.status,
        body=content(kind, detail, instance),
        content_type=MEDIA_TYPE,
        headers={**own, **(headers or {})},
    )
