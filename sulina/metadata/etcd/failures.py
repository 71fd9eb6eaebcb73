"""Reads a member's answer, or turns its failure into the error that the caller should get.

``MemberFailure`` means that another member may be tried, if that is safe; every other error is
final and goes to the caller.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import aiohttp

from sulina.errors import NotFound, Refused, StorageFull, SulinaError, TooLarge
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.settings import EtcdEndpoint


class MemberFailure(Exception):
    """A request to one member got no usable answer."""

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
        """The error to raise if every member fails this way, because waiting would not help."""
        self.token_refused = token_refused


class RevisionGone(Refused):
    """The requested revision is compacted."""


class RevisionAhead(Refused):
    """The requested revision does not exist yet."""


BROKEN = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
"""Raised when a connection cannot be made, breaks, or times out."""
_NOTHING_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_BEFORE_PROPOSING = (
    # Sent by a member before it proposes a change, so nothing can have happened.
    "etcdserver: no leader",
    "etcdserver: too many requests",
)
_FULL = "etcd has no space left: compact and defragment it, raise its quota, then disarm its alarm"
_TOKEN = ("invalid auth token", "revision of auth store is old")
_TRANSIENT = {1, 2, 4, 10, 13, 14}
_UNKNOWN, _NO_SUCH, _DENIED, _EXHAUSTED, _PRECONDITION, _OUT_OF_RANGE = 2, 5, 7, 8, 9, 11
_UNAUTHENTICATED = 16


def read_answer(content: bytes, endpoint: EtcdEndpoint) -> Json:
    """The message in ``content``. Streams wrap theirs, and may report errors with status 200."""
    try:
        answer: Any = json.loads(content)
        if "error" not in answer:
            found: Json = answer.get("result", answer)
            return found
    except (ValueError, TypeError, AttributeError) as error:
        reason = f"{endpoint} sent an answer that is not from etcd ({error})"
        raise MemberFailure(reason, may_have_happened=True) from None
    raise of_answer(answer, endpoint)


def of_transport(error: Exception, endpoint: EtcdEndpoint) -> MemberFailure:
    """The failure for an exception of aiohttp, asyncio or the operating system."""
    if isinstance(error, aiohttp.ClientSSLError):
        reason = f"no TLS connection to etcd at {endpoint} ({_tls_cause(error)})"
        verdict = Refused(f"{reason}: check the certificates, and that the port speaks TLS")
        return MemberFailure(reason, may_have_happened=False, verdict=verdict)
    sent = not isinstance(error, _NOTHING_SENT)
    if isinstance(error, asyncio.TimeoutError):
        return MemberFailure(f"etcd at {endpoint} did not answer in time", may_have_happened=sent)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.strerror or error.os_error
        return MemberFailure(f"no etcd at {endpoint} ({cause})", may_have_happened=False)
    return MemberFailure(
        f"the connection to etcd at {endpoint} broke ({error})", may_have_happened=sent
    )


def of_status(status: int, body: bytes, endpoint: EtcdEndpoint) -> Exception:
    """The error for an HTTP answer whose status is not 200."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and ("code" in answer or "error" in answer):
        return of_answer(answer, endpoint)
    reason = f"{endpoint} answered with HTTP status {status}"
    if status >= 500:
        return MemberFailure(reason, may_have_happened=True)
    verdict = Refused(f"{reason}, which etcd never does: is this etcd's client port?")
    return MemberFailure(reason, may_have_happened=False, verdict=verdict)


def of_answer(answer: dict[str, Any], endpoint: EtcdEndpoint) -> Exception:
    """The error that etcd's gateway describes; streams describe it in another form."""
    inner = answer.get("error")
    found = inner if isinstance(inner, dict) else answer
    message = str(found.get("message") or found.get("error") or "no reason given")
    code = found.get("code", found.get("grpc_code"))
    return of_code(code if isinstance(code, int) else _UNKNOWN, message, endpoint)


def of_code(code: int, message: str, endpoint: EtcdEndpoint) -> Exception:
    """The error for a gRPC code and its message."""
    if code == _UNAUTHENTICATED or any(part in message for part in _TOKEN):
        return MemberFailure(
            f"etcd at {endpoint} no longer accepts our token",
            may_have_happened=False,
            verdict=Refused(f"etcd at {endpoint} refused a token that it just issued: {message}"),
            token_refused=True,
        )
    if code in _TRANSIENT or message.startswith(_BEFORE_PROPOSING):
        before = message.startswith(_BEFORE_PROPOSING)
        return MemberFailure(
            f"etcd at {endpoint} answered: {message}", may_have_happened=not before
        )
    if code == _NO_SUCH and "lease" in message:
        return NotFound("the lease no longer exists: it expired or was revoked; request a new one")
    if code == _OUT_OF_RANGE:
        kind = RevisionGone if "compacted" in message else RevisionAhead
        return kind(f"etcd refused a revision: {message}")
    if "too large" in message or "larger than max" in message:
        return TooLarge(f"etcd refused the request for its size: {message}")
    if code == _EXHAUSTED and "space exceeded" in message:
        # Sent before a write is proposed, but also after the one that filled the space was made.
        return MemberFailure(_FULL, may_have_happened=True, verdict=StorageFull(_FULL))
    return Refused(_explain(code, message))


def _explain(code: int, message: str) -> str:
    if "user name is empty" in message:
        return "etcd requires a user and a password: add them to the settings"
    if "authentication failed" in message:
        return "etcd rejected the user or the password: check both"
    if code == _PRECONDITION and "not enabled" in message:
        return "etcd has no authentication enabled: omit the user, or enable it in etcd"
    if code == _DENIED:
        return f"etcd denied this user access ({message}): grant it the keys below the root"
    return f"etcd refused the request: {message}"


def _tls_cause(
    error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError,
) -> str:
    cause: BaseException = getattr(error, "certificate_error", None) or error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    return str(getattr(cause, "reason", None) or cause)
