"""Refuses gRPC callers without a valid token before any byte of their message is read.

Few methods are open to everybody: health checks, and the exchange of a key for a token. Their calls
are bounded in number and time, and a new one replaces the oldest that has not sent its message yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from broker_containers.doors.grpc_shared.callers import Callers, Context, token_in
from broker_containers.doors.grpc_shared.statuses import FOR_TOOLS, abort
from broker_containers.security.errors import Denied, Unauthenticated
from broker_containers.security.throttle import TokenThrottle
from sulina.errors import Overloaded, SulinaError
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_MESSAGE_SECONDS: Final = 5.0
"""How long the message of an open call may take to arrive."""

_MESSAGE_BYTES: Final = 64 << 10
"""The largest message of an open call."""

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continue: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"


@dataclass(frozen=True, slots=True)
class OpenMethod:
    """A method that needs no token."""

    waiting: int
    """Maximum calls whose message has not arrived."""
    running: int
    """Maximum calls in progress after that; further ones are refused."""


class CallGate(grpc.aio.ServerInterceptor):
    """Methods are named by path: ``/package.Service/Method``. Callers without a valid token may
    call ``open_methods``, and get the fixed replies in ``answers``."""

    def __init__(
        self,
        callers: Callers,
        throttle: TokenThrottle,
        clock: Clock,
        open_methods: Mapping[str, OpenMethod],
        answers: Mapping[str, Message] | None = None,
    ) -> None:
        self._callers = callers
        self._throttle = throttle
        self._clock = clock
        self._open = {path: _OpenCalls(each, clock) for path, each in open_methods.items()}
        self._answers = answers or {}

    async def intercept_service(
        self, continuation: _Continue, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler | None:
        metadata = handler_call_details.invocation_metadata
        try:
            self._callers.access_with(metadata)
        except SulinaError as error:
            fixed = self._answers.get(handler_call_details.method)
            if fixed is not None:
                return _fixed_reply(fixed)
            if handler_call_details.method not in self._open:
                return self._refusal(error, token_in(metadata))
            known = False
        else:
            known = self._callers.on
        handler = await continuation(handler_call_details)
        calls = self._open.get(handler_call_details.method)
        return handler if known or calls is None or handler is None else calls.limited(handler)

    def _refusal(self, error: SulinaError, token: str) -> _Handler:
        async def refuse(_: Any, context: Context) -> None:
            answer = error
            if isinstance(error, Unauthenticated | Denied):
                self._callers.refused(context, token, error)
            if token and isinstance(error, Unauthenticated):
                try:
                    await self._throttle.refused(address_of(context))
                except Overloaded as overloaded:
                    answer = overloaded
            await abort(context, answer, FOR_TOOLS)

        # A handler of streams: gRPC reads no message unless it is asked to.
        return grpc.stream_stream_rpc_method_handler(refuse)


def _fixed_reply(answer: Message) -> _Handler:
    async def reply(_: Any, context: Context) -> None:
        await context.write(answer.SerializeToString())

    return grpc.stream_stream_rpc_method_handler(reply)


class _OpenCalls:
    """The calls of one open method."""

    def __init__(self, limits: OpenMethod, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._running = 0

    def limited(self, handler: _Handler) -> _Handler:
        """The same method within the limits."""
        inner: Any = handler

        async def handle(_: Any, context: Context) -> None:
            message = await self._message(context)
            if message is None:
                await _exhausted(context, "no message arrived in time: try again")
            if len(message) > _MESSAGE_BYTES:
                message = None  # an error keeps the variables of this function for a while
                await _exhausted(
                    context, f"without a token, a message has at most {_MESSAGE_BYTES} bytes"
                )
            if self._running >= self._limits.running:
                await _exhausted(context, "too many such calls are in progress: try again later")
            try:
                request = inner.request_deserializer(message)
            except DecodeError:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT, "the message cannot be decoded: check it"
                )
            self._running += 1
            try:
                if inner.response_streaming:
                    await inner.unary_stream(request, context)
                else:
                    await context.write(await inner.unary_unary(request, context))
            finally:
                self._running -= 1

        return grpc.stream_stream_rpc_method_handler(
            handle, response_serializer=inner.response_serializer
        )

    async def _message(self, context: Context) -> bytes | None:
        """The first message; None if it does not arrive in time."""
        if len(self._waiting) >= self._limits.waiting:
            oldest = next(iter(self._waiting))
            oldest.set_result(None)
            del self._waiting[oldest]
        replaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[replaced] = None
        reading = asyncio.ensure_future(context.read())
        try:
            first = asyncio.wait((reading, replaced), return_when=asyncio.FIRST_COMPLETED)
            with suppress(TimeoutError):
                await within(self._clock, _MESSAGE_SECONDS, first)
            message = reading.result() if reading.done() else None
        finally:
            self._waiting.pop(replaced, None)
            reading.cancel()
        return message if isinstance(message, bytes) else None


async def _exhausted(context: Context, why: str) -> NoReturn:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)


def address_of(context: Context) -> str:
    """The caller's address without its port; for other transports than TCP what gRPC says."""
    kind, _, rest = context.peer().partition(":")
    if kind not in ("ipv4", "ipv6"):
        return context.peer()
    return rest.rpartition(":")[0].removeprefix("%5B").removesuffix("%5D").strip("[]")
