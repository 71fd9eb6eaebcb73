"""Errors as gRPC statuses. Danube's tools evaluate the status and print the text."""

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
"""Maximum length of a text: it is sent in a header, and headers are limited."""


_STATUSES: Final[dict[type, grpc.StatusCode]] = {
    BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    ProtocolError: grpc.StatusCode.INTERNAL,
    # The broker is stopping; other brokers serve.
    Closed: grpc.StatusCode.UNAVAILABLE,
    # A valid request that the present state does not allow, such as deleting a used namespace.
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
    """The status of the nearest known base class."""
    for kind in type(error).__mro__:
        if kind in _STATUSES:
            return _STATUSES[kind]
    return grpc.StatusCode.INTERNAL
