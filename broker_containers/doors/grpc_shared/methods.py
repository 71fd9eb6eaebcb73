"""What a method of a gRPC service is, and what it may return.

A method returns its answer, or something that has it later. Only methods that have to wait for
several things run as tasks: a method that answers at once, or when one future is done, costs none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from broker_containers.doors.grpc_shared.statuses import Statuses
from broker_containers.metrics.requests import Answered
from broker_containers.quotas.quotas import Held
from sulina.errors import SulinaError


class Abort(Exception):
    """Ends a call with a status. Raised by ``Call.abort``."""

    def __init__(self, status: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = status


class Settled(Protocol):
    """A call that is answered later."""

    def settled(self, answer: Message, error: SulinaError | None) -> None: ...


class Later:
    """An answer that is given when :meth:`settle` is called, which must be in a later turn."""

    __slots__ = ("_answer", "_call")

    def __init__(self, answer: Message) -> None:
        self._answer = answer
        self._call: Settled | None = None

    def settle(self, error: SulinaError | None) -> None:
        """Give the answer; with an error, the call fails."""
        if self._call is not None:
            self._call.settled(self._answer, error)

    def belongs_to(self, call: Settled) -> None:
        """The call to answer."""
        self._call = call


Outcome = Message | Later | Coroutine[Any, Any, Message] | AsyncGenerator[bytes | Sequence[bytes]]
"""Streams yield encoded messages, one or any number at a time."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    service: str
    name: str
    call: Callable[[Any, Any], Outcome]
    """Takes the request, or for a client's stream an iterator of requests, and the call."""
    read: Callable[[bytes], Any]
    answered: Answered
    """Counts its requests."""
    statuses: Statuses
    client_streams: bool = False
    """Whether the client sends any number of messages."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


@dataclass(slots=True)
class ConnectionUser:
    """A principal that makes calls on a connection."""

    held: Held
    calls: int = 0
    """In progress."""
    seen: float = 0.0
    """When its last call began."""
