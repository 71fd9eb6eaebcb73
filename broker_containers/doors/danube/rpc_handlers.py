"""Wraps every call: turns errors into gRPC statuses, logs unexpected ones, counts requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.danube.error_statuses import Context, abort
from broker_containers.metrics.requests import RequestCounts
from sulina.errors import SulinaError

_log = logging.getLogger(__name__)

Unary = Callable[[Any, Context], Awaitable[Message]]
Stream = Callable[[Any, Context], AsyncGenerator[bytes]]


def handlers_of(
    described: ServiceDescriptor,
    unary: Mapping[str, Unary],
    streams: Mapping[str, Stream] | None = None,
    *,
    requests: RequestCounts,
) -> grpc.GenericRpcHandler:
    """A service for a gRPC server. Every method in ``described`` must have a function."""
    streams = streams or {}
    assert unary.keys() | streams.keys() == set(described.methods_by_name), described.full_name
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in described.methods:
        read = GetMessageClass(method.input_type).FromString
        if method.name in unary:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                _unary(_Name(described.full_name, method.name), unary[method.name], requests),
                request_deserializer=read,
                response_serializer=lambda answer: cast(bytes, answer.SerializeToString()),
            )
        else:
            # Messages are written as bytes: those of another broker are forwarded unchanged.
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                _stream(_Name(described.full_name, method.name), streams[method.name], requests),
                request_deserializer=read,
            )
    return grpc.method_handlers_generic_handler(described.full_name, handlers)


class _Name(NamedTuple):
    service: str
    method: str


def _unary(
    name: _Name, call: Unary, requests: RequestCounts
) -> Callable[[Any, Context], Awaitable[Message]]:
    async def handle(request: Any, context: Context) -> Message:
        ok = False
        try:
            answer = await call(request, context)
            ok = True
            return answer
        except SulinaError as error:
            await abort(context, error)
        except (grpc.aio.AbortError, grpc.RpcError):
            raise
        except Exception:
            await _failed(name, context)
        finally:
            requests.add(*name, ok=ok)
        raise AssertionError("aborted")

    return handle


def _stream(
    name: _Name, call: Stream, requests: RequestCounts
) -> Callable[[Any, Context], Awaitable[None]]:
    """A stream always ends with an error: the client left, or it can't continue."""

    async def handle(request: Any, context: Context) -> None:
        try:
            # Closed immediately in all cases: this detaches the consumer.
            async with aclosing(call(request, context)) as messages:
                async for message in messages:
                    await context.write(message)
        except SulinaError as error:
            await abort(context, error)
        except (grpc.aio.AbortError, grpc.RpcError):
            raise
        except Exception:
            await _failed(name, context)
        finally:
            requests.add(*name, ok=context.cancelled())

    return handle


async def _failed(name: _Name, context: Context) -> None:
    _log.exception("%s/%s failed", *name)
    await context.abort(grpc.StatusCode.INTERNAL, "unexpected error: see the broker's log")
