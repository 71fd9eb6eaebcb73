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
from sulina.runtime.tls_files import TlsTexts, TlsWatch

_Reply = TypeVar("_Reply", bound=Message)
AppendCall = grpc.aio.StreamStreamCall[bytes, bytes]


class Link:
    """Connects and reconnects automatically. Create it on the event loop; ``close`` it."""

    def __init__(self, address: str, settings: RemoteSettings) -> None:
        """Raises ``Refused`` if the settings name TLS files that can't be used."""
        self.address = address
        self._settings = settings
        self._tls = None if settings.tls is None else TlsWatch(settings.tls)
        self._channel = self._dial(None if self._tls is None else self._tls.texts)
        self._before: grpc.aio.Channel | None = None
        self._unary: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._closed = False

    async def renew(self) -> None:
        """Read changed TLS files; from then on new calls use them.

        Open streams keep their connection until the files change once more.
        """
        texts = None if self._tls is None else self._tls.renewed()
        if texts is None or self._closed:
            return
        old, self._before, self._channel = self._before, self._channel, self._dial(texts)
        self._unary.clear()
        if old is not None:
            await old.close()

    def _dial(self, tls: TlsTexts | None) -> grpc.aio.Channel:
        options = channel_options(self._settings)
        if tls is None:
            return grpc.aio.insecure_channel(self.address, options=options)
        credentials = grpc.ssl_channel_credentials(
            tls.ca, None if tls.certificate is None else tls.key, tls.certificate
        )
        return grpc.aio.secure_channel(self.address, credentials, options=options)

    async def hello(self, seconds: float) -> pb.HelloReply:
        """Identity and state of the node. Raises ``UnknownOutcome`` after ``seconds``."""
        return await self.ask("Hello", pb.HelloRequest(), pb.HelloReply, timeout=seconds)

    async def ask(
        self,
        name: str,
        request: Message,
        reply: type[_Reply],
        incarnation: str | None = None,
        timeout: float | None = None,
    ) -> _Reply:
        """Call a method; with ``incarnation``, another node at this address refuses it."""
        answer = await self.ask_raw(name, request, incarnation, timeout)
        try:
            return reply.FromString(answer)
        except DecodeError:
            raise UnknownOutcome(
                f"the answer of {self.address} can't be decoded: is it a storage node?"
            ) from None

    async def ask_raw(
        self,
        name: str,
        request: Message,
        incarnation: str | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """The same, with the undecoded answer."""
        unary = self._unary.get(name)
        if unary is None:
            unary = self._unary[name] = self._channel.unary_unary(method(name))
        try:
            return await unary(
                request.SerializeToString(), timeout=timeout, metadata=_metadata(incarnation)
            )
        except grpc.RpcError as error:
            raise error_of_call(error, self.address, secure=self._tls is not None) from None
        except asyncio.CancelledError:
            # Closing a channel cancels its calls; that must not cancel their callers.
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            raise self._gone() from None
        except grpc.aio.UsageError:
            raise self._gone() from None

    def open_appends(self, incarnation: str, life: str) -> AppendCall:
        """A stream of appends to the node with that incarnation, in that life."""
        appends: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(
            method("Append")
        )
        return appends(metadata=(*_metadata(incarnation), (LIFE_KEY, life)))

    async def close(self) -> None:
        """Cancel all calls and close the connection."""
        self._closed = True
        if self._before is not None:
            await self._before.close()
        await self._channel.close()

    def _gone(self) -> UnknownOutcome:
        return UnknownOutcome(f"the connection to {self.address} was closed")


def _metadata(incarnation: str | None) -> tuple[tuple[str, str], ...]:
    return () if incarnation is None else ((INCARNATION_KEY, incarnation),)
