"""What went wrong at one member, told apart by what it means for the caller.

``Failure`` is for trying elsewhere, if that is safe; everything else is an answer to the caller.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import aiohttp

from sulina.errors import NotFound, Refused, StorageFull, SulinaError, TooLarge
from sulina.metadata.etcd.settings import Endpoint


class Failure(Exception):
    """A try at one member brought no answer that can be used."""

    def __init__(
        self,
        reason: str,
        *,
        may_have_happened: bool,
        verdict: SulinaError | None = None,
        token_refused: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_have_happened = may_have_happened
        self.verdict = verdict
        """What to tell the caller if every member fails in this way: waiting does not help."""
        self.token_refused = token_refused


class RevisionGone(Refused):
    """A revision was asked for that is compacted."""


class RevisionAhead(Refused):
    """A revision was asked for that is yet to come."""


BROKEN = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
"""What is raised when a connection can't be made, breaks, or brings nothing in time."""
_NOTHING_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_BEFORE_PROPOSING = (
    # Said by a member before it hands a request on, so that nothing can have come of it.
    "etcdserver: no leader",
    "etcdserver: too many requests",
)
_FULL = "etcd has no space left: compact and defragment it, raise its quota, then disarm its alarm"
_TOKEN = ("invalid auth token", "revision of auth store is old")
_TRANSIENT = {1, 2, 4, 10, 13, 14}
_UNKNOWN, _NO_SUCH, _DENIED, _EXHAUSTED, _PRECONDITION, _OUT_OF_RANGE = 2, 5, 7, 8, 9, 11
_UNAUTHENTICATED = 16


def of_transport(error: Exception, endpoint: Endpoint) -> Failure:
    """The failure behind an exception of aiohttp, asyncio or the operating system."""
    if isinstance(error, aiohttp.ClientSSLError):
        reason = f"no TLS connection to etcd at {endpoint} ({_tls_cause(error)})"
        verdict = Refused(f"{reason}: check the certificates, and that the port speaks TLS")
        return Failure(reason, may_have_happened=False, verdict=verdict)
    sent = not isinstance(error, _NOTHING_SENT)
    if isinstance(error, asyncio.TimeoutError):
        return Failure(f"etcd at {endpoint} did not answer in time", may_have_happened=sent)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.strerror or error.os_error
        return Failure(f"no etcd at {endpoint} ({cause})", may_have_happened=False)
    return Failure(f"the connection to etcd at {endpoint} broke ({error})", may_have_happened=sent)


def of_status(status: int, body: bytes, endpoint: Endpoint) -> Exception:
    """The error behind an HTTP answer that is none of success."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and ("code" in answer or "error" in answer):
        return of_answer(answer, endpoint)
    reason = f"{endpoint} answered with HTTP status {status}"
    if status >= 500:
        return Failure(reason, may_have_happened=True)
    verdict = Refused(f"{reason}, which etcd does not: is it etcd's client port?")
    return Failure(reason, may_have_happened=False, verdict=verdict)


def of_answer(answer: dict[str, Any], endpoint: Endpoint) -> Exception:
    """The error that etcd's gateway describes; within streams its form is another."""
    inner = answer.get("error")
    found = inner if isinstance(inner, dict) else answer
    message = str(found.get("message") or found.get("error") or "no reason given")
    code = found.get("code", found.get("grpc_code"))
    return of_code(code if isinstance(code, int) else _UNKNOWN, message, endpoint)


def of_code(code: int, message: str, endpoint: Endpoint) -> Exception:
    """The error behind a gRPC code and its message."""
    if code == _UNAUTHENTICATED or any(part in message for part in _TOKEN):
        return Failure(
            f"etcd at {endpoint} no longer knows our token",
            may_have_happened=False,
            verdict=Refused(f"etcd at {endpoint} refuses a token it just gave: {message}"),
            token_refused=True,
        )
    if code in _TRANSIENT or message.startswith(_BEFORE_PROPOSING):
        before = message.startswith(_BEFORE_PROPOSING)
        return Failure(f"etcd at {endpoint} said: {message}", may_have_happened=not before)
    if code == _NO_SUCH and "lease" in message:
        return NotFound("the lease is gone: it ran out or was given up; ask for a new one")
    if code == _OUT_OF_RANGE:
        kind = RevisionGone if "compacted" in message else RevisionAhead
        return kind(f"etcd refused a revision: {message}")
    if "too large" in message or "larger than max" in message:
        return TooLarge(f"etcd refused the request for its size: {message}")
    if code == _EXHAUSTED and "space exceeded" in message:
        # Said before a write is handed on, but also after the one that filled the space was made.
        return Failure(_FULL, may_have_happened=True, verdict=StorageFull(_FULL))
    return Refused(_explain(code, message))


def _explain(code: int, message: str) -> str:
    if "user name is empty" in message:
        return "etcd asks for a user and a password: put them into the settings"
    if "authentication failed" in message:
        return "etcd refused the user or the password: check both"
    if code == _PRECONDITION and "not enabled" in message:
        return "etcd has no authentication enabled: leave the user out, or enable it in etcd"
    if code == _DENIED:
        return f"etcd does not allow this user to do that ({message}): grant it the root's keys"
    return f"etcd refused the request: {message}"


def _tls_cause(
    error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError,
) -> str:
    cause: BaseException = getattr(error, "certificate_error", None) or error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    return str(getattr(cause, "reason", None) or cause)
