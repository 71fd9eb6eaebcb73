"""Maps errors to codes at a storage node, and codes to errors at its clients.

Only the code counts; the gRPC status that accompanies it is for people and proxies. An unknown or
missing code is an unknown outcome: a client must never take a proxy's "not found" for a node's.
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
"""The key of the code in the trailing metadata."""

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
    # The node is stopping. ``Closed`` at its client would mean that the client was closed.
    Closed: UNAVAILABLE,
}
# Not RESOURCE_EXHAUSTED for full or too large: many gRPC clients retry that forever.
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
    """The code of an error; OK for None."""
    if error is None:
        return OK
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return UNKNOWN_OUTCOME


def status_of(code: int) -> grpc.StatusCode:
    """The gRPC status of a code."""
    return _STATUSES.get(code, grpc.StatusCode.UNKNOWN)


def error_of(code: int, message: str, who: str) -> SulinaError:
    """The error of a code other than OK; ``who`` is the node that answered."""
    kind = _ERRORS.get(code)
    if kind is None:
        return UnknownOutcome(f"{who} answered with the unknown code {code}: {message}")
    return kind(f"{who}: {message}")


def error_of_call(error: grpc.RpcError, who: str, *, secure: bool = False) -> SulinaError:
    """The error of a failed call: that of its code, else ``UnknownOutcome``.

    ``secure`` says whether the connection uses TLS.
    """
    if isinstance(error, grpc.aio.AioRpcError):
        for key, value in error.trailing_metadata() or ():
            if key == CODE_KEY and str(value).isdecimal():
                return error_of(int(value), error.details() or "", who)
        details = error.details() or ""
        why = why_no_connection(details, secure=secure) or f"{error.code().name}, {details}"
        return UnknownOutcome(f"{who} did not answer: {why}")
    return UnknownOutcome(f"{who} did not answer: {error}")
