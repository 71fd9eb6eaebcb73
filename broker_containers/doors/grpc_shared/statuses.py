"""Errors as gRPC tells them. Danube's tools look at the status and print the sentence."""

from __future__ import annotations

from typing import Final

import grpc

from broker_containers.doors.grpc_shared.names import BadRequest
from broker_containers.security.errors import Denied, Unauthenticated
from sulina.errors import (
    AlreadyExists,
    Closed,
    CorruptEntry,
    Fenced,
    NotFound,
    Overloaded,
    ProtocolError,
    Refused,
    Retriable,
    StorageFull,
    SulinaError,
    TooLarge,
    UnknownOutcome,
)

MAX_TEXT: Final = 2000
"""Of a sentence: it travels in a header, and those are bounded."""


_STATUSES: Final[dict[type, grpc.StatusCode]] = {
    BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    ProtocolError: grpc.StatusCode.INTERNAL,
    # The broker is stopping; others serve.
    Closed: grpc.StatusCode.UNAVAILABLE,
    # A request that makes sense, and not now: a namespace with topics, the last active broker.
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    StorageFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Retriable: grpc.StatusCode.UNAVAILABLE,
    # Another broker took over; the same call finds it.
    Fenced: grpc.StatusCode.UNAVAILABLE,
    UnknownOutcome: grpc.StatusCode.UNKNOWN,
    CorruptEntry: grpc.StatusCode.DATA_LOSS,
}


def status_of(error: SulinaError) -> grpc.StatusCode:
    """The status of the nearest class that is known."""
    for kind in type(error).__mro__:
        if kind in _STATUSES:
            return _STATUSES[kind]
    return grpc.StatusCode.INTERNAL
