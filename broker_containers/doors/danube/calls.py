"""What every call passes through: errors become statuses, and what nobody foresaw is logged."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.danube.statuses import Context, abort
from sulina.errors import SulinaError

_log = logging.getLogger(__name__)

Unary = Callable[[Any, Context], Awaitable[Message]]
Stream = Callable[[Any, Context], AsyncGenerator[bytes]]


def handlers_of(
    described: ServiceDescriptor,
    unary: Mapping[str, Unary],
    streams: Mapping[str, Stream] | None = None,
) -> grpc.GenericRpcHandler:
    """A service for a server of gRPC; all methods that are described must be there."""
    streams = streams or {}
    assert unary.keys() | streams.keys() == set(described.methods_by_name), described.full_name
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in described.methods:
        read = GetMessageClass(method.input_type).FromString
        if method.name in unary:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                _unary(method.full_name, unary[method.name]),
                request_deserializer=read,
                response_serializer=lambda answer: cast(bytes, answer.SerializeToString()),
            )
        else:
            # Messages are written as bytes: those of another broker are passed on as they are.
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                _stream(method.full_name, streams[method.name]), request_deserializer=read
            )
    return grpc.method_handlers_generic_handler(described.full_name, handlers)


def _unary(name: str, call: Unary) -> Callable[[Any, Context], Awaitable[Message]]:
    async def handle(request: Any, context: Context) -> Message:
        try:
            return await call(request, context)
        except SulinaError as error:
            await abort(context, error)
        except (grpc.aio.AbortError, grpc.RpcError):
            raise
        except Exception:
            await _failed(name, context)
        raise AssertionError("aborted")

    return handle


def _stream(name: str, call: Stream) -> Callable[[Any, Context], Awaitable[None]]:
    async def handle(request: Any, context: Context) -> None:
        try:
            # Closed here and now, whatever happens: with it the consumer gives its place up.
            async with aclosing(call(request, context)) as messages:
                async for message in messages:
                    await context.write(message)
        except SulinaError as error:
            await abort(context, error)
        except (grpc.aio.AbortError, grpc.RpcError):
            raise
        except Exception:
            await _failed(name, context)

    return handle


async def _failed(name: str, context: Context) -> None:
    _log.exception("%s failed", name)
    await context.abort(grpc.StatusCode.INTERNAL, "the broker's log says more")
