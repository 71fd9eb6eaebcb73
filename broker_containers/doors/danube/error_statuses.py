"""Errors as gRPC statuses, chosen by how Danube's stock clients react to them.

On UNAVAILABLE every client looks the topic up again and retries. ALREADY_EXISTS ends a client for
good. RESOURCE_EXHAUSTED is retried too, forever while sending. All others reach the application.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import grpc

from broker_containers.doors.grpc_shared.names import BadRequest
from broker_containers.schemas.errors import InvalidPayload
from broker_containers.security.errors import Denied, Unauthenticated
from sulina.errors import AlreadyExists, NotFound, Refused, SulinaError, TooLarge

Context = grpc.aio.ServicerContext[Any, Any]
MAX_TEXT: Final = 1000
"""Maximum length of an error text: it is sent in a header, and those are limited."""


_STATUSES: Final[dict[type, grpc.StatusCode]] = {
    BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    InvalidPayload: grpc.StatusCode.INVALID_ARGUMENT,
    TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    # Retriable, fenced, unknown outcome or damaged: a retry may reach another broker.
    SulinaError: grpc.StatusCode.UNAVAILABLE,
}


def status_of(error: SulinaError) -> grpc.StatusCode:
    """The status of the most specific class in the table."""
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


async def abort(context: Context, error: SulinaError) -> NoReturn:
    """End a call with an error."""
    await context.abort(status_of(error), str(error)[:MAX_TEXT])
