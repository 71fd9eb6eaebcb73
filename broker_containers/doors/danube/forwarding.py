"""Forwards calls to the topic's owner, for clients that can't or don't connect to it.

A call is forwarded once: the broker that receives it answers it, or fails it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import grpc
from google.protobuf.message import Message

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.settings import PEER_SECONDS
from broker_containers.doors.grpc_shared.call_head import PRINCIPAL, UNTIL
from broker_containers.doors.grpc_shared.callers import Callers, Context
from sulina.errors import Refused, Unavailable
from sulina.runtime.threads import in_daemon
from sulina.runtime.tls_files import own_authorities
from sulina.version import __version__

_FORWARDED: Final = "x-sulina-passed-on"
_BROKER_URL: Final = "x-danube-broker-url"
_AUTHORIZATION: Final = "authorization"

_OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect soon to a broker that was restarted.
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
_TRY_AGAIN: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_A = TypeVar("_A", bound=Message)


class PeerUnavailable(Unavailable):
    """Another broker did not answer, or its answer may differ on a retry."""


def was_forwarded(context: Context) -> bool:
    """Whether another broker sent this call here."""
    return any(key == _FORWARDED for key, _ in context.invocation_metadata() or ())


def wanted_broker(context: Context) -> str:
    """The broker that a client behind a proxy asks for, or empty. Some clients add a slash."""
    for key, value in context.invocation_metadata() or ():
        if key == _BROKER_URL:
            return str(value).rstrip("/")
    return ""


@dataclass(frozen=True, slots=True)
class PeerCertificates:
    """What the certificates of other brokers must be."""

    authorities: Path | None = None
    """Signed by one of these (PEM); by default of ``SSL_CERT_FILE``, or of the system."""
    name: str = ""
    """For this name; by default for the host of their URL."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Blocks. Raises ``Refused`` if the file can't be read."""
        if self.authorities is None:
            return grpc.ssl_channel_credentials(own_authorities())
        try:
            return grpc.ssl_channel_credentials(self.authorities.read_bytes())
        except OSError as error:
            raise Refused(f"{self.authorities} cannot be read: {error}") from None


class Forwarder:
    """gRPC channels to other brokers: to ``members`` and nowhere else, whatever a client asks for.

    ``members`` returns the URLs of the cluster's other brokers; ``callers`` says who calls.
    """

    def __init__(
        self,
        members: Callable[[], Iterable[str]],
        callers: Callers | None = None,
        peers: PeerCertificates | None = None,
    ) -> None:
        self._members = members
        self._callers = callers
        self._peers = peers or PeerCertificates()
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def unary(
        self, url: str, method: str, request: Message, answer: type[_A], context: Context
    ) -> _A:
        """The reply of another broker. Its errors abort the caller's call with the same status.

        Raises ``PeerUnavailable`` if it can't be reached, is busy, or no longer serves the topic.
        """
        call: Callable[..., Any] = (await self._channel(url)).unary_unary(
            method,
            request_serializer=_bytes_of,
            response_deserializer=answer.FromString,
        )
        try:
            return cast(
                _A,
                await call(request, metadata=self._metadata(context), timeout=PEER_SECONDS),
            )
        except asyncio.CancelledError:
            raise _peer_left(url) from None
        except grpc.aio.AioRpcError as error:
            if error.code() in _TRY_AGAIN:
                raise PeerUnavailable(_details(error, url)) from None
            await context.abort(error.code(), _details(error, url))

    async def stream(
        self, url: str, method: str, request: Message, context: Context
    ) -> AsyncGenerator[bytes]:
        """The messages of another broker's stream, unchanged. Raises ``Unavailable`` at its end, or
        if it is not a member of the cluster."""
        opened: Callable[..., Any] = (await self._channel(url)).unary_stream(
            method, request_serializer=_bytes_of, response_deserializer=None
        )
        call = opened(request, metadata=self._metadata(context))
        try:
            async for message in call:
                yield message
        except asyncio.CancelledError:
            raise _peer_left(url) from None
        except grpc.aio.AioRpcError as error:
            raise Unavailable(_details(error, url)) from None
        finally:
            call.cancel()
        raise Unavailable(f"{url} ended the stream")

    async def healthy(
        self, url: str, request: pb.HealthCheckRequest, seconds: float, context: Context
    ) -> bool | None:
        """Whether another broker reports a client as healthy; None if it does not answer, or is not
        a member of the cluster."""
        try:
            channel = await self._channel(url)
        except PeerUnavailable:
            return None
        call: Callable[..., Any] = channel.unary_unary(
            "/danube.HealthCheck/HealthCheck",
            request_serializer=_bytes_of,
            response_deserializer=pb.HealthCheckResponse.FromString,
        )
        try:
            answer = await call(request, metadata=self._metadata(context), timeout=seconds)
        except asyncio.CancelledError:
            _peer_left(url)
            return None
        except grpc.aio.AioRpcError:
            return None
        return bool(answer.status == pb.HealthCheckResponse.OK)

    async def _channel(self, url: str) -> grpc.aio.Channel:
        members = {each.rstrip("/") for each in self._members()}
        if url.rstrip("/") not in members:
            raise PeerUnavailable(f"{url} is not a broker of this cluster: look the topic up again")
        channel = self._channels.get(url)
        if channel is None:
            scheme, _, place = url.partition("://")
            credentials = await in_daemon(self._peers.credentials) if scheme == "https" else None
            channel = self._channels.get(url)  # another call may have been faster
        if channel is None:
            if credentials is not None:
                named = [("grpc.ssl_target_name_override", self._peers.name)]
                options = (*_OPTIONS, *named) if self._peers.name else _OPTIONS
                channel = grpc.aio.secure_channel(place, credentials, options=options)
            else:
                channel = grpc.aio.insecure_channel(place, options=_OPTIONS)
            left = [each for each in self._channels if each.rstrip("/") not in members]
            closing = [self._channels.pop(each) for each in left]
            self._channels[url] = channel
            for each in closing:
                await each.close()
        return channel

    def _metadata(self, context: Context) -> tuple[tuple[str, str | bytes], ...]:
        """The caller's token; for a certificate, which can't be forwarded, whose it is."""
        sent = [(_FORWARDED, __version__)]
        token, certificate = "", None
        if self._callers is not None:
            token, certificate = self._callers.identity(context)
        if not token and certificate is not None and self._callers is not None:
            sent += [
                (_AUTHORIZATION, f"Bearer {self._callers.own_token()}"),
                (PRINCIPAL, quote(certificate.principal)),
                (UNTIL, str(certificate.until_us)),
            ]
            return tuple(sent)
        given = context.invocation_metadata() or ()
        return (*((key, value) for key, value in given if key == _AUTHORIZATION), *sent)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


def _bytes_of(message: Message) -> bytes:
    return message.SerializeToString()


def _peer_left(url: str) -> PeerUnavailable:
    """The error for a call to a broker that has left the cluster, whose channel was closed.

    gRPC reports this like the end of our own caller, which this raises again: if it were not told
    apart, our caller would wait forever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    return PeerUnavailable(f"{url} has left the cluster")


def _details(error: grpc.aio.AioRpcError, url: str) -> str:
    return error.details() or f"{url} answered {error.code().name}"
