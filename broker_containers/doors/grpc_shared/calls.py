"""Turns services into gRPC handlers: authorization, a deadline, and errors as statuses.

Unexpected errors are logged and returned as INTERNAL.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.grpc_shared.called_operations import operation_of
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.statuses import MAX_TEXT, status_of
from broker_containers.metrics.requests import RequestCounts
from broker_containers.operations.running import Operations
from sulina.errors import SulinaError
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)

Call = Callable[[Any], Awaitable[Message]]


class CallGuard(NamedTuple):
    """What authorizes the calls of a port and counts them."""

    callers: Callers
    operations: Operations
    requests: RequestCounts


class DanubeService(ABC):
    """One of the services."""

    @abstractmethod
    def calls(self) -> Mapping[str, Call]:
        """The handler of each method, by the method's name."""

    def seconds(self, request: Message) -> float | None:
        """How long this request may take; None for the usual time."""
        return None


def handlers_of(
    described: ServiceDescriptor,
    service: DanubeService,
    clock: Clock,
    seconds: float,
    guard: CallGuard,
) -> grpc.GenericRpcHandler:
    """The gRPC handlers of a service, which must have every method that is described."""
    calls = service.calls()
    assert calls.keys() == set(described.methods_by_name), described.full_name

    def handler(method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        call = calls[method.name]

        async def handle(request: Message, context: Context) -> Message:
            allowed = service.seconds(request) or seconds
            ok = False
            try:
                caller = guard.callers.caller(context)
                name, arguments = operation_of(method.name, request)
                act = guard.operations.act_as(caller, name, arguments, partial(call, request))
                answer = await within(clock, allowed, act)
                ok = True
            except SulinaError as error:
                await context.abort(status_of(error), str(error)[:MAX_TEXT])
            except TimeoutError:
                why = f"no answer within {allowed:g} s; it may have been done nevertheless"
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, why)
            except Exception:
                _log.exception("%s failed", method.full_name)
                await context.abort(grpc.StatusCode.INTERNAL, "the broker's log has the details")
            finally:
                guard.requests.add(described.full_name, method.name, ok=ok)
            return answer

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )

    return grpc.method_handlers_generic_handler(
        described.full_name, {method.name: handler(method) for method in described.methods}
    )
