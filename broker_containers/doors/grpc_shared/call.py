"""One gRPC call: what the services see of it, and how it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, NoReturn
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError, Message

from broker_containers.doors.grpc_shared.arriving_call import ArrivingCall
from broker_containers.doors.grpc_shared.framing import prefixed
from broker_containers.doors.grpc_shared.methods import Abort, Later, Outcome
from broker_containers.doors.grpc_shared.statuses import status_of
from broker_containers.doors.http2.frames import ErrorCode
from broker_containers.doors.http2.hpack import Header
from broker_containers.security.certificate import ClientCertificate
from sulina.errors import SulinaError

_log = logging.getLogger(__name__)
_MAX_TEXT: Final = 2000
"""Maximum length of a text: it is sent in a header, and headers are limited."""
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class Call(ArrivingCall):
    """One call in progress. Services get it as their ``context``."""

    __slots__ = ()

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

    async def abort(self, status: grpc.StatusCode, text: str = "") -> NoReturn:
        """End the call with a status other than OK."""
        raise Abort(status, text)

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
        if self.method is not None:
            self.method.answered.ok += 1
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
            if ok:
                method.answered.ok += 1
            else:
                method.answered.errors += 1

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
