"""Errors on their way between a storage node and its clients, in both directions.

A code is the truth; a gRPC status goes with it for people and proxies. What is not known to this
table, or comes without a code, is an unknown outcome: a reader must never mistake a proxy's "not
found" for a storage node's.
"""

from __future__ import annotations

from typing import Final

import grpc

from storage_grpc.node import MaybeLost
from storage_grpc.remote.wire.handshake import why_no_connection
from storage_grpc.storage_pb2 import (
    CORRUPT_ENTRY,
    FENCED,
    MAYBE_LOST,
    NOT_FOUND,
    OK,
    OVERLOADED,
    REFUSED,
    STORAGE_FAILED,
    STORAGE_FULL,
    TOO_LARGE,
    UNAVAILABLE,
    UNKNOWN_OUTCOME,
)
from sulina.errors import (
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

CODE_KEY: Final = "sulina-code"
"""The trailing metadata that carries a code."""

_ERRORS: Final[dict[int, type[SulinaError]]] = {
    UNKNOWN_OUTCOME: UnknownOutcome,
    FENCED: Fenced,
    NOT_FOUND: NotFound,
    CORRUPT_ENTRY: CorruptEntry,
    REFUSED: Refused,
    TOO_LARGE: TooLarge,
    STORAGE_FULL: StorageFull,
    STORAGE_FAILED: StorageFailed,
    OVERLOADED: Overloaded,
    UNAVAILABLE: Unavailable,
    MAYBE_LOST: MaybeLost,
}
_CODES: Final[dict[type, int]] = {
    **{kind: code for code, kind in _ERRORS.items()},
    Retriable: UNAVAILABLE,
    # The node stops. To its client that is no reason to think of its own end.
    Closed: UNAVAILABLE,
}
# Not RESOURCE_EXHAUSTED for what is full or too large: many gRPC clients repeat that for ever.
_STATUSES: Final[dict[int, grpc.StatusCode]] = {
    UNKNOWN_OUTCOME: grpc.StatusCode.UNKNOWN,
    FENCED: grpc.StatusCode.FAILED_PRECONDITION,
    NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    CORRUPT_ENTRY: grpc.StatusCode.DATA_LOSS,
    REFUSED: grpc.StatusCode.INVALID_ARGUMENT,
    TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    STORAGE_FULL: grpc.StatusCode.UNAVAILABLE,
    STORAGE_FAILED: grpc.StatusCode.UNAVAILABLE,
    OVERLOADED: grpc.StatusCode.UNAVAILABLE,
    UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    MAYBE_LOST: grpc.StatusCode.UNKNOWN,
}


def code_of(error: BaseException | None) -> int:
    """The code of an outcome; OK for None."""
    if error is None:
        return OK
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return UNKNOWN_OUTCOME


def status_of(code: int) -> grpc.StatusCode:
    """The gRPC status that goes with a code."""
    return _STATUSES.get(code, grpc.StatusCode.UNKNOWN)


def error_of(code: int, message: str, who: str) -> SulinaError:
    """The error that a code other than OK stands for; ``who`` answered so."""
    kind = _ERRORS.get(code)
    if kind is None:
        return UnknownOutcome(f"{who} answered with code {code}, which is not known: {message}")
    return kind(f"{who}: {message}")


def error_of_call(error: grpc.RpcError, who: str, *, secure: bool = False) -> SulinaError:
    """What a failed call means: what its code says, else that the outcome is unknown.

    ``secure`` is whether it was to go over TLS.
    """
    if isinstance(error, grpc.aio.AioRpcError):
        for key, value in error.trailing_metadata() or ():
            if key == CODE_KEY and str(value).isdecimal():
                return error_of(int(value), error.details() or "", who)
        details = error.details() or ""
        why = why_no_connection(details, secure=secure) or f"{error.code().name}, {details}"
        return UnknownOutcome(f"{who} did not answer: {why}")
    return UnknownOutcome(f"{who} did not answer: {error}")
