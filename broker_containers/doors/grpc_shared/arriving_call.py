"""One gRPC call as it arrives: its headers, then one message, or a stream of them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import grpc

from broker_containers.doors.grpc_shared.call_head import CallHead
from broker_containers.doors.grpc_shared.framing import Incoming, MessageTooLarge
from broker_containers.doors.grpc_shared.methods import ConnectionUser, Method
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.hpack import Header
from broker_containers.doors.http2.streams import Stream
from broker_containers.security.certificate import ClientCertificate

_QUEUED_MESSAGES: Final = 64
"""Messages of a client's stream that wait for the method."""


class CallConnection(Protocol):
    """What calls need of their connection; see ``connection``."""

    http2: Http2Connection
    peer: str
    address: str
    certificate: ClientCertificate | None
    seen: float
    half_window: int
    blocked: bool
    reserve: bool
    reserved: int
    writers: dict[Any, None]
    tasks: set[asyncio.Task[None]]

    def ok_head(self) -> bytes: ...
    def ok_tail(self) -> bytes: ...
    def tail(self, headers: list[Header], *, only: bool) -> bytes: ...
    def refuse(self, call: Any, status: grpc.StatusCode, text: str) -> None: ...
    def show_identity(self, call: Any, principal: str) -> None: ...
    def more(self, call: Any, missing: int) -> None: ...
    def arrived(self, call: Any) -> None: ...
    def ended(self, call: Any) -> None: ...


class ArrivingCall(ABC):
    """The part of a call that takes messages; ``Call`` answers it."""

    __slots__ = (
        "_drained", "_headers_sent", "_incoming", "_message", "_messages", "_released", "_task",
        "_timer", "_waits", "_wanted", "connection", "counted", "head", "left", "limits", "method",
        "most", "progress", "reserved", "stream", "user",
    )  # fmt: skip

    def __init__(self, connection: CallConnection, stream: Stream, head: CallHead) -> None:
        self.connection = connection
        self.stream = stream
        self.head = head
        self.method: Method | None = None
        """Set once the call is allowed."""
        self.limits: Any = None
        """What counts it as a call of a method that is open to everybody."""
        self.user: ConnectionUser | None = None
        """Whose call it is, as far as quotas are concerned."""
        self.most = 0
        """The largest message."""
        self.left = False
        """The call has ended: it is answered, or the client gave it up."""
        self.counted = False
        self.reserved = 0
        """Bytes reserved for a large message."""
        self.progress = 0.0
        """When a part of the message last arrived."""
        self._incoming: Incoming | None = None
        self._message: bytes | None = None
        self._messages: deque[bytes] | None = None
        self._wanted: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._waits = False
        self._headers_sent = False
        self._released = False

    def cancelled(self) -> bool:
        """Whether the client gave the call up."""
        return self.left

    def received(self, data: bytes, now: float) -> None:
        """Data of the call has arrived; ``stream.ended`` says whether it was the last."""
        method = self.method
        if method is None or self.left:
            return
        ended = self.stream.ended
        incoming = self._incoming
        if incoming is None:
            # Nearly always: one frame with one whole message.
            if (
                4 < len(data) <= self.most + 5
                and not data[0]
                and int.from_bytes(data[1:5], "big") + 5 == len(data)
            ):
                if ended and self._messages is None and self._message is None:
                    self._only(data[5:])
                    return
                self._add(data[5:])
                if ended and not self.cancelled():
                    self._complete()
                return
            incoming = self._incoming = Incoming(self.most)
        self.progress = now
        try:
            for message in incoming.add(data):
                self._add(message)
                if self.cancelled():
                    return
        except MessageTooLarge as error:
            self.fail(error.status, str(error))
            return
        if ended:
            if incoming.partial:
                self.fail(grpc.StatusCode.INVALID_ARGUMENT, "the message is cut off")
            else:
                self._complete()
        elif self.stream.room < self.connection.half_window and not self._messages:
            self.connection.more(self, incoming.missing)

    @property
    def waits_for_message(self) -> bool:
        """Whether the call can't begin before more of its message arrives."""
        return self._task is None and not self.stream.ended and not self._waits

    def _add(self, message: bytes) -> None:
        messages = self._messages
        if messages is not None:
            messages.append(message)
            if self.reserved:
                self.connection.arrived(self)
            if len(messages) > _QUEUED_MESSAGES:
                self.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many messages at once")
            self._wake_reader()
        elif self._message is not None:
            self.fail(grpc.StatusCode.UNIMPLEMENTED, "the method takes one message")
        else:
            self._message = message

    def _complete(self) -> None:
        """The client has sent everything."""
        if self._messages is not None:
            self._wake_reader()
            return
        message, self._message = self._message, None
        if message is None:
            self.fail(grpc.StatusCode.INVALID_ARGUMENT, "the message is missing")
        else:
            self._only(message)

    def _only(self, message: bytes) -> None:
        """The only message of the call has arrived, and nothing else will."""
        if self.limits is None or self.limits.begin(self):
            if self.reserved:
                self.connection.arrived(self)
            self._begin(message)

    def _wake_reader(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    async def _requests(self) -> AsyncIterator[Any]:
        """The messages of a client's stream."""
        assert self._messages is not None and self.method is not None
        while True:
            while self._messages:
                yield self.method.read(self._messages.popleft())
                self.connection.http2.extend(self.stream)
            if self.stream.ended:
                return
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted

    @abstractmethod
    def _begin(self, message: bytes) -> None:
        """The only message has arrived."""

    @abstractmethod
    def fail(self, status: grpc.StatusCode, text: str) -> None:
        """End the call with a status, if it has not ended."""
