"""Turns services into gRPC handlers: errors become statuses, requests are counted.

A service has one method per RPC, with the same name in snake case: ``list_brokers`` for
ListBrokers. Unexpected errors are logged and returned as INTERNAL.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.grpc_shared.called_operations import operation_of
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.statuses import FOR_TOOLS, Statuses, abort
from broker_containers.metrics.requests import RequestCounts
from broker_containers.operations.running import Operations
from sulina.errors import SulinaError
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")

Unary = Callable[[Any, Context], Awaitable[Message]]
Stream = Callable[[Any, Context], AsyncGenerator[bytes]]
Replies = Callable[[AsyncIterator[Any], Context], AsyncGenerator[bytes]]


class AdminService:
    """One of the administrative services. Its methods take the request alone."""

    def seconds(self, request: Message) -> float | None:
        """How long this request may take; None for the usual time."""
        return None


class CallGuard(NamedTuple):
    """What authorizes the calls of a port and counts them."""

    callers: Callers
    operations: Operations
    requests: RequestCounts


def admin_handlers(
    described: ServiceDescriptor,
    service: AdminService,
    clock: Clock,
    seconds: float,
    guard: CallGuard,
) -> grpc.GenericRpcHandler:
    """The gRPC handlers of an administrative service: each call is authorized and timed out."""

    def guarded(method: str, call: Callable[[Any], Awaitable[Message]]) -> Unary:
        async def handle(request: Message, context: Context) -> Message:
            caller = guard.callers.caller(context)
            name, arguments = operation_of(method, request)
            act = guard.operations.act_as(caller, name, arguments, partial(call, request))
            allowed = service.seconds(request) or seconds
            try:
                return await within(clock, allowed, act)
            except TimeoutError:
                why = f"no answer within {allowed:g} s; it may have been done nevertheless"
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, why)

        return handle

    methods = methods_of(described, service)
    guarded_methods = {name: guarded(name, call) for name, call in methods.items()}
    return handlers_of(described, guarded_methods, guard.requests, FOR_TOOLS)


def methods_of(described: ServiceDescriptor, service: object) -> dict[str, Any]:
    """The method of ``service`` for each RPC. Raises ``AttributeError`` if one is missing."""
    return {
        method.name: getattr(service, _WORD_START.sub("_", method.name).lower())
        for method in described.methods
    }


def handlers_of(
    described: ServiceDescriptor,
    methods: Mapping[str, Any],
    requests: RequestCounts,
    statuses: Statuses,
) -> grpc.GenericRpcHandler:
    """The gRPC handlers of a service. Streams yield messages as bytes: those of another broker are
    forwarded unchanged."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in described.methods:
        wrapped = _Wrapped(described.full_name, method.name, requests, statuses)
        read = GetMessageClass(method.input_type).FromString
        if method.client_streaming:
            handlers[method.name] = grpc.stream_stream_rpc_method_handler(
                wrapped.replies(methods[method.name]), request_deserializer=read
            )
        elif method.server_streaming:
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                wrapped.stream(methods[method.name]), request_deserializer=read
            )
        else:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                wrapped.unary(methods[method.name]),
                request_deserializer=read,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
    return grpc.method_handlers_generic_handler(described.full_name, handlers)


class _Wrapped(NamedTuple):
    """What surrounds every call of one method."""

    service: str
    method: str
    requests: RequestCounts
    statuses: Statuses

    def unary(self, call: Unary) -> Unary:
        async def handle(request: Any, context: Context) -> Message:
            ok = False
            try:
                answer = await call(request, context)
                ok = True
                return answer
            except Exception as error:
                await self._failed(context, error)
            finally:
                self.requests.add(self.service, self.method, ok=ok)

        return handle

    def replies(self, call: Replies) -> Callable[[Any, Context], Awaitable[None]]:
        """A stream of requests and one of replies, each of which counts as a call.

        It ends well if the client ends its own; some clients leave after the reply they wait for.
        """

        async def handle(requests: Any, context: Context) -> None:
            try:
                async with aclosing(call(requests, context)) as replies:
                    async for reply in replies:
                        self.requests.add(self.service, self.method, ok=True)
                        await context.write(reply)
            except Exception as error:
                self.requests.add(self.service, self.method, ok=False)
                await self._failed(context, error)

        return handle

    def stream(self, call: Stream) -> Callable[[Any, Context], Awaitable[None]]:
        """A stream always ends with an error: the client left, or it can't continue."""

        async def handle(request: Any, context: Context) -> None:
            try:
                # Closed immediately in all cases: this detaches the consumer.
                async with aclosing(call(request, context)) as messages:
                    async for message in messages:
                        await context.write(message)
            except Exception as error:
                await self._failed(context, error)
            finally:
                self.requests.add(self.service, self.method, ok=context.cancelled())

        return handle

    async def _failed(self, context: Context, error: Exception) -> NoReturn:
        if isinstance(error, SulinaError):
            await abort(context, error, self.statuses)
        if isinstance(error, grpc.aio.AbortError | grpc.RpcError):
            raise error
        _log.error("%s/%s failed", self.service, self.method, exc_info=error)
        await context.abort(grpc.StatusCode.INTERNAL, "unexpected error: see the broker's log")
