"""One gRPC call: what the services see of it, and how it is answered.

A method returns its answer, or something that has it later. Only methods that have to wait for
several things run as tasks: a method that answers at once, or when one future is done, costs none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError, Message

from broker_containers.doors.grpc_shared.call_head import CallHead
from broker_containers.doors.grpc_shared.framing import Incoming, MessageTooLarge, prefixed
from broker_containers.doors.grpc_shared.statuses import Statuses, status_of
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.frames import ErrorCode
from broker_containers.doors.http2.hpack import Header
from broker_containers.doors.http2.streams import Stream
from broker_containers.metrics.requests import RequestCounts
from broker_containers.quotas.quotas import Held
from broker_containers.security.certificate import ClientCertificate
from sulina.errors import SulinaError

_log = logging.getLogger(__name__)
_MAX_TEXT: Final = 2000
"""Maximum length of a text: it is sent in a header, and headers are limited."""
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_QUEUED_MESSAGES: Final = 64
"""Messages of a client's stream that wait for the method."""


class Abort(Exception):
    """Ends a call with a status. Raised by ``Call.abort``."""

    def __init__(self, status: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = status


class Later:
    """An answer that is given when :meth:`settle` is called, which must be in a later turn."""

    __slots__ = ("_answer", "_call")

    def __init__(self, answer: Message) -> None:
        self._answer = answer
        self._call: Call | None = None

    def settle(self, error: SulinaError | None) -> None:
        """Give the answer; with an error, the call fails."""
        if self._call is not None:
            self._call.settled(self._answer, error)

    def belongs_to(self, call: Call) -> None:
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
    requests: RequestCounts
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
    writers: dict[Call, None]
    tasks: set[asyncio.Task[None]]

    def ok_head(self) -> bytes: ...
    def ok_tail(self) -> bytes: ...
    def tail(self, headers: list[Header], *, only: bool) -> bytes: ...
    def refuse(self, call: Call, status: grpc.StatusCode, text: str) -> None: ...
    def show_identity(self, call: Call, principal: str) -> None: ...
    def more(self, call: Call, missing: int) -> None: ...
    def arrived(self, call: Call) -> None: ...
    def ended(self, call: Call) -> None: ...


class Call:
    """One call in progress. Services get it as their ``context``."""

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

    # ---- for services ----

    def invocation_metadata(self) -> tuple[Header, ...]:
        """What the client sent besides the message."""
        return self.head.metadata

    def peer(self) -> str:
        """The client's host and port."""
        return self.connection.peer

    @property
    def address(self) -> str:
        """The client's host."""
        return self.connection.address

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client's verified certificate, if it has one."""
        return self.connection.certificate

    def cancelled(self) -> bool:
        """Whether the client gave the call up."""
        return self.left

    async def abort(self, status: grpc.StatusCode, text: str = "") -> NoReturn:
        """End the call with a status other than OK."""
        raise Abort(status, text)

    # ---- arriving messages ----

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
        elif self.limits is None or self.limits.begin(self):
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

    # ---- answering ----

    def begin_stream(self) -> None:
        """Run a method that takes a client's stream; its messages follow."""
        self._messages = deque()
        assert self.method is not None
        self._answer_with(self.method.call(self._requests(), self))

    def _begin(self, message: bytes) -> None:
        method = self.method
        assert method is not None
        try:
            outcome = method.call(method.read(message), self)
        except Exception as error:
            self._failed(error)
        else:
            self._answer_with(outcome)

    def _answer_with(self, outcome: Outcome) -> None:
        if isinstance(outcome, Message):
            self._reply(outcome)
            return
        if self.head.timeout is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.head.timeout, self._expire)
        if isinstance(outcome, Later):
            self._waits = True
            outcome.belongs_to(self)
            return
        if isinstance(outcome, Coroutine):
            self._task = asyncio.create_task(self._run(outcome))
            # It may be cancelled before it begins.
            self._task.add_done_callback(lambda _: outcome.close())
        else:
            self._task = asyncio.create_task(self._stream(outcome))
        self._task.add_done_callback(self._task_done)
        self.connection.tasks.add(self._task)

    def settled(self, answer: Message, error: SulinaError | None) -> None:
        """The outcome of a :class:`Later` is known."""
        if error is None:
            self._reply(answer)
        else:
            self._failed(error)

    async def _run(self, work: Coroutine[Any, Any, Message]) -> None:
        try:
            answer = await work
        except Exception as error:
            self._failed(error)
        else:
            self._reply(answer)

    async def _stream(self, generator: AsyncGenerator[bytes | Sequence[bytes]]) -> None:
        method = self.method
        assert method is not None
        ok = False
        try:
            # Closed immediately in all cases: this detaches the consumer.
            async with aclosing(generator) as batches:
                async for messages in batches:
                    if method.client_streams:
                        self._count(ok=True)  # each reply is one to a request of the stream
                    await self._write([messages] if isinstance(messages, bytes) else messages)
            ok = True
            self._finish(grpc.StatusCode.OK, "")
        except Exception as error:
            ok = self.left
            self._failed(error, counted=False)
        except asyncio.CancelledError:
            ok = True  # a stream usually ends because the client leaves
            raise
        finally:
            if not (ok and method.client_streams):
                self._count(ok=ok)

    async def _write(self, messages: Sequence[bytes]) -> None:
        """Send messages of a stream; waits until the client accepts them. None: only headers."""
        if self.left:
            raise asyncio.CancelledError
        while not self.send_now(messages) and not self.left:
            messages = ()
            self._drained = asyncio.get_running_loop().create_future()
            self.connection.writers[self] = None
            await self._drained

    def send_now(self, messages: Sequence[bytes]) -> bool:
        """Send messages of a stream, instead of yielding them, while its method waits.

        Never blocks. False if the client has not accepted them all: nothing more may be sent before
        the method has yielded.
        """
        connection = self.connection
        if self.left:
            return False
        if not self._headers_sent:
            self._headers_sent = True
            connection.http2.send_headers(self.stream, connection.ok_head())
        if messages:
            connection.http2.send_data(self.stream, prefixed(messages))
        return self.stream.queue is None and not connection.blocked

    def drained(self) -> None:
        """Everything queued is sent."""
        self.connection.writers.pop(self, None)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def reply_now(self, answer: Message) -> None:
        """Answer without looking at the message."""
        if not self.left:
            self._send_answer(answer)

    def _reply(self, answer: Message) -> None:
        self._count(ok=True)
        if not self.left:
            self._send_answer(answer)
        else:
            self._release()

    def _send_answer(self, answer: Message) -> None:
        self.left = True
        connection = self.connection
        data = prefixed((answer.SerializeToString(),))
        head = connection.ok_head()
        connection.http2.send_whole(self.stream, head, data, connection.ok_tail())
        self._release()

    def _failed(self, error: BaseException, *, counted: bool = True) -> None:
        method = self.method
        assert method is not None
        if counted:
            self._count(ok=False)
        if isinstance(error, SulinaError):
            self.fail(status_of(error, method.statuses), str(error))
        elif isinstance(error, Abort):
            self.fail(error.status, str(error))
        elif isinstance(error, DecodeError):
            why = "the message can't be decoded: check it"
            self.fail(grpc.StatusCode.INVALID_ARGUMENT, why)
        elif isinstance(error, asyncio.CancelledError):
            self.fail(grpc.StatusCode.CANCELLED, "the call was interrupted")
        else:
            _log.error("%s failed", method.path, exc_info=error)
            self.fail(grpc.StatusCode.INTERNAL, "unexpected error: see the broker's log")

    def _count(self, *, ok: bool) -> None:
        method = self.method
        if method is not None:
            method.requests.add(method.service, method.name, ok=ok)

    def fail(self, status: grpc.StatusCode, text: str) -> None:
        """End the call with a status, if it has not ended."""
        self._finish(status, text)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _finish(self, status: grpc.StatusCode, text: str) -> None:
        if self.left:
            self._release()
            return
        self.left = True
        http2 = self.connection.http2
        if status is grpc.StatusCode.OK:
            if not self._headers_sent:
                http2.send_headers(self.stream, self.connection.ok_head())
            http2.send_tail(self.stream, self.connection.ok_tail())
        else:
            headers: list[Header] = [("grpc-status", str(status.value[0]))]
            if text:
                headers.append(("grpc-message", quote(text[:_MAX_TEXT], safe=_PRINTABLE)))
            http2.send_tail(self.stream, self.connection.tail(headers, only=not self._headers_sent))
        self._release()

    def _expire(self) -> None:
        self.fail(grpc.StatusCode.DEADLINE_EXCEEDED, "the client's deadline has passed")

    # ---- the end ----

    def reset(self) -> None:
        """The client gave the call up, or is gone."""
        if self.left:
            return
        self.left = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._release()
        self._message = None

    def end(self, code: ErrorCode) -> None:
        """Give the call up on this side, without a status."""
        self.connection.http2.reset(self.stream, code)
        self.reset()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self.connection.tasks.discard(task)
        if not self.left:  # cancelled by somebody else than the client
            self._finish(grpc.StatusCode.CANCELLED, "the call was interrupted")
        self._release()

    def _release(self) -> None:
        """Give back what the call holds; once, and not before its task has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._released or (
            self._task is not None
            and not self._task.done()
            and self._task is not asyncio.current_task()
        ):
            return
        self._released = True
        self.stream.user = None
        self.connection.ended(self)
