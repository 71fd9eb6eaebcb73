"""Connections to the servers of a TiKV cluster, each with a deadline on every call."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from sulina.errors import Refused
from sulina.objects.tikv.failures import LinkFailure, of_call
from sulina.runtime.tls_files import TlsFiles, TlsTexts, TlsWatch

_Answer = TypeVar("_Answer", bound=Message)
Stream = grpc.aio.StreamStreamCall[bytes, bytes]
_MIB: Final = 1 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * _MIB),
    ("grpc.max_send_message_length", 64 * _MIB),
    # A server that restarted must be found within a call's retries.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
)


class Links:
    """One connection for each address, opened when first used. ``close`` it."""

    def __init__(self, tls: TlsFiles | None, deadline_seconds: float) -> None:
        """``deadline_seconds`` is that of each call. Raises ``Refused`` for unusable TLS files."""
        self._tls = None if tls is None else TlsWatch(tls)
        self._deadline = deadline_seconds
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._before: dict[str, grpc.aio.Channel] = {}
        """Those made with the TLS files before these, for the calls that are in flight."""
        self._closed = False

    async def ask(
        self, address: str, path: str, request: Message, answer: type[_Answer], seconds: float = 0
    ) -> _Answer:
        """Call a method. ``seconds`` lowers the deadline; 0 means the usual one.

        Raises ``LinkFailure`` if another attempt may succeed, otherwise ``Refused``.
        """
        deadline = min(seconds or self._deadline, self._deadline)
        try:
            channel = await self._channel(address)
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            data = await call(request.SerializeToString(), timeout=deadline)
            return answer.FromString(data)
        except grpc.aio.AioRpcError as error:
            raise of_call(error, address) from None
        except DecodeError:
            raise Refused(
                f"the answer of {address} cannot be decoded: is it a server of TiKV?"
            ) from None
        except grpc.aio.UsageError:
            raise LinkFailure(f"the connection to {address} was closed") from None
        except asyncio.CancelledError:
            # Closing a channel cancels its calls; that must not cancel their callers.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise LinkFailure(f"the connection to {address} was closed") from None

    async def stream(self, address: str, path: str) -> Stream:
        """A stream in both directions. The caller limits the time of each answer.

        It keeps its connection until the TLS files change for the second time.
        """
        channel = await self._channel(address)
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
        return call()

    async def close(self) -> None:
        """Close all connections. Calls in flight fail."""
        self._closed = True
        channels = [*self._channels.values(), *self._before.values()]
        self._channels, self._before = {}, {}
        for channel in channels:
            await channel.close()

    async def _channel(self, address: str) -> grpc.aio.Channel:
        if self._closed:
            raise LinkFailure("the store was closed")
        if self._tls is not None and self._tls.renewed() is not None:
            oldest, self._before, self._channels = self._before, self._channels, {}
            for channel in oldest.values():
                await channel.close()
            if self._closed:
                raise LinkFailure("the store was closed")
        found = self._channels.get(address)
        if found is None:
            found = _dialed(address, None if self._tls is None else self._tls.texts)
            self._channels[address] = found
        return found


def _dialed(address: str, tls: TlsTexts | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        tls.ca, None if tls.certificate is None else tls.key, tls.certificate
    )
    return grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
