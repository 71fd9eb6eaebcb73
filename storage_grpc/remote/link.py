"""A gRPC connection to one address, and the calls of the storage service over it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from storage_grpc import storage_pb2 as pb
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.codes import error_of_call
from storage_grpc.remote.wire.service import INCARNATION_KEY, LIFE_KEY, channel_options, method
from sulina.errors import UnknownOutcome

_Reply = TypeVar("_Reply", bound=Message)
AppendCall = grpc.aio.StreamStreamCall[bytes, bytes]


class Link:
    """Connects by itself, and again after a loss. Made on the event loop; ``close`` it."""

    def __init__(self, address: str, settings: RemoteSettings) -> None:
        self.address = address
        self._channel = grpc.aio.insecure_channel(address, options=channel_options(settings))
        self._appends: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = (
            self._channel.stream_stream(method("Append"))
        )
        self._unary: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._closed = False

    async def hello(self, seconds: float) -> pb.HelloReply:
        """Who is there. Raises ``UnknownOutcome`` if nobody answers in that time."""
        return await self.ask("Hello", pb.HelloRequest(), pb.HelloReply, timeout=seconds)

    async def ask(
        self,
        name: str,
        request: Message,
        reply: type[_Reply],
        incarnation: str | None = None,
        timeout: float | None = None,
    ) -> _Reply:
        """One call of a method, for the node of that incarnation."""
        answer = await self.ask_raw(name, request, incarnation, timeout)
        try:
            return reply.FromString(answer)
        except DecodeError:
            raise UnknownOutcome(
                f"{self.address} was not understood: is it a storage node?"
            ) from None

    async def ask_raw(
        self,
        name: str,
        request: Message,
        incarnation: str | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """The same, with the answer as it came."""
        unary = self._unary.get(name)
        if unary is None:
            unary = self._unary[name] = self._channel.unary_unary(method(name))
        try:
            return await unary(
                request.SerializeToString(), timeout=timeout, metadata=_metadata(incarnation)
            )
        except grpc.RpcError as error:
            raise error_of_call(error, self.address) from None
        except asyncio.CancelledError:
            # The end of the channel cancels its calls: that is not the end of the caller.
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            raise self._gone() from None
        except grpc.aio.UsageError:
            raise self._gone() from None

    def open_appends(self, incarnation: str, life: str) -> AppendCall:
        """A stream of appends to the node of that incarnation, in that life."""
        return self._appends(metadata=(*_metadata(incarnation), (LIFE_KEY, life)))

    async def close(self) -> None:
        """End all calls and the connection."""
        self._closed = True
        await self._channel.close()

    def _gone(self) -> UnknownOutcome:
        return UnknownOutcome(f"{self.address}: the connection was closed here")


def _metadata(incarnation: str | None) -> tuple[tuple[str, str], ...]:
    return () if incarnation is None else ((INCARNATION_KEY, incarnation),)
