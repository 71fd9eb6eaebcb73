"""Errors as gRPC statuses, with their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import grpc

from broker_containers.doors.grpc_shared.names import BadRequest
from broker_containers.quotas.quotas import QuotaExceeded
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
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

Statuses = Mapping[type[SulinaError], grpc.StatusCode]
_OF_REQUESTS: Final[Statuses] = {
    BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    # A valid request that the present state does not allow, such as deleting a used namespace.
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
}
FOR_CLIENTS: Final[Statuses] = {
    **_OF_REQUESTS,
    InvalidPayload: grpc.StatusCode.INVALID_ARGUMENT,
    # Retriable, fenced, unknown outcome or damaged: a retry may reach another broker.
    SulinaError: grpc.StatusCode.UNAVAILABLE,
}
"""Chosen by how Danube's stock clients react. On UNAVAILABLE every client looks the topic up again
and retries. ALREADY_EXISTS ends a client for good. RESOURCE_EXHAUSTED is retried too, forever while
sending. All others reach the application."""
FOR_TOOLS: Final[Statuses] = {
    **_OF_REQUESTS,
    InvalidSchema: grpc.StatusCode.INVALID_ARGUMENT,
    ProtocolError: grpc.StatusCode.INTERNAL,
    # The broker is stopping; other brokers serve.
    Closed: grpc.StatusCode.UNAVAILABLE,
    Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    StorageFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Retriable: grpc.StatusCode.UNAVAILABLE,
    # Another broker took over; the same call finds it.
    Fenced: grpc.StatusCode.UNAVAILABLE,
    UnknownOutcome: grpc.StatusCode.UNKNOWN,
    CorruptEntry: grpc.StatusCode.DATA_LOSS,
    SulinaError: grpc.StatusCode.INTERNAL,
}
"""Danube's admin tools evaluate the status and print the text."""


def status_of(error: SulinaError, statuses: Statuses) -> grpc.StatusCode:
    """The status of the error's most specific class."""
    return next(statuses[kind] for kind in type(error).__mro__ if kind in statuses)
