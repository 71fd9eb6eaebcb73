"""Turns services into methods of a gRPC server: errors become statuses, requests are counted.

A service has one method per RPC, with the same name in snake case: ``list_brokers`` for
ListBrokers. Unexpected errors are logged and returned as INTERNAL.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.grpc_shared.called_operations import operation_of
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.methods import Method
from broker_containers.doors.grpc_shared.statuses import FOR_TOOLS, Statuses
from broker_containers.metrics.requests import RequestCounts
from broker_containers.operations.running import Operations
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")

Unary = Callable[[Any, Context], Coroutine[Any, Any, Message]]


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
) -> list[Method]:
    """The methods of an administrative service: each call is authorized and timed out."""

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
) -> list[Method]:
    """The methods of a service. Streams yield messages as bytes, any number at a time: those of
    another broker are forwarded unchanged."""
    return [
        Method(
            described.full_name,
            method.name,
            methods[method.name],
            GetMessageClass(method.input_type).FromString,
            requests.of(described.full_name, method.name),
            statuses,
            client_streams=method.client_streaming,
        )
        for method in described.methods
    ]
