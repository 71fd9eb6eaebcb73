"""The gRPC server of a storage node: methods, health, reflection, clean stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import EntryStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.node import LocalNode
from storage_grpc.remote.node import member_name
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.service import PROTOCOL, SERVICE, server_options
from storage_grpc.service.append_session import AppendSession
from storage_grpc.service.calls import Context, StorageCalls, abort
from storage_grpc.service.state_calls import StateCalls
from storage_grpc.service.tier_calls import ServedTier, TierCalls
from storage_grpc.service.tls import ServerTls, server_credentials
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.runtime.grpc_log import shorten_grpc_log
from sulina.version import __version__

_MAX_READ_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says about itself in Hello."""

    id: str
    incarnation: str
    loss_record: LossRecord
    max_entry_bytes: int


class StorageServer:
    """Serves one entry store, which the caller closes after ``stop``."""

    def __init__(
        self,
        identity: Identity,
        store: EntryStore,
        tier: ServedTier | None = None,
        tls: ServerTls | None = None,
        folder: Path | None = None,
    ) -> None:
        """With a ``tier``, which the caller closes, it serves the cold tier as well.

        ``folder`` is where the store's data is, if it is on a disk.
        """
        self._identity = identity
        self._tls = tls
        self._tier = tier
        self._store = store
        self._node = LocalNode(identity.id, store, identity.loss_record)
        self._calls = StorageCalls(
            self._node, store, identity.incarnation, self._hello, _MAX_READ_BYTES
        )
        member = member_name(identity.id, identity.incarnation)
        others = RemoteSettings(tls=None if tls is None else tls.files)
        self._tier_calls = TierCalls(self._calls, self._node, member, tier, _MAX_READ_BYTES, others)
        self._state_calls = StateCalls(self._calls, store, folder, lambda: self.unwritable)
        self._sessions: set[AppendSession] = set()
        self._writable = True
        self._shown = True
        """Whether the health service reports that it takes appends."""
        self._stopping = False
        self._health = health.aio.HealthServicer()
        self._setting_health: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(options=server_options(identity.max_entry_bytes))
        appends: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._append
        )
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "Append": appends,
                        **self._calls.handlers(),
                        **self._tier_calls.handlers(),
                        **self._state_calls.handlers(),
                    },
                )
            ]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )
        self.port = 0
        """The port it listens on, once started."""

    @property
    def may_have_lost(self) -> bool:
        """Whether the node may have lost data of older ledgers."""
        return self._identity.loss_record.may_have_lost

    async def start(self, host: str, port: int) -> Self:
        """Listen; port 0 picks a free one.

        Raises ``Refused`` if the port is in use or the TLS files can't be used.
        """
        credentials = None if self._tls is None else server_credentials(self._tls)
        address = f"{host}:{port}"
        try:
            if credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            raise Refused(
                f"can't listen on {address}: another process uses the port, or the address does "
                "not belong to this machine; choose another host or port"
            ) from None
        shorten_grpc_log()
        await self._server.start()
        await self._health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        return self

    async def stop(self, seconds: float) -> None:
        """Stop cleanly; calls that take longer than ``seconds`` are cancelled.

        Received appends are answered; the others have an unknown outcome at the client. Other
        calls are finished.
        """
        self._stopping = True
        await self._health.enter_graceful_shutdown()
        for session in self._sessions:
            session.stop()
        await self._server.stop(seconds)
        await self._tier_calls.close()
        if self._setting_health is not None:
            await self._setting_health

    async def _append(self, requests: AsyncIterator[bytes], context: Context) -> None:
        try:
            self._calls.check_incarnation(context)
            self._calls.check_life(context)
            if self._stopping:
                raise Unavailable("the node is stopping: use another one")
        except SulinaError as error:
            await abort(context, error)
        session = AppendSession(self._node, self._store, requests, context.write, self._disk_failed)
        self._sessions.add(session)
        try:
            error_at_end = await session.run()
        finally:
            self._sessions.discard(session)
        if error_at_end is not None:
            await abort(context, error_at_end)

    @property
    def writable(self) -> bool:
        """Whether it takes appends: its disk works, has space, and it is not stopping."""
        return self.unwritable is None

    @property
    def unwritable(self) -> str | None:
        """Why it takes no appends; None if it does."""
        if self._stopping:
            return "the node is stopping"
        if not self._writable:
            return "the disk failed: check it and restart the node"
        return None if self._store.full is None else str(self._store.full)

    @property
    def streams(self) -> int:
        """Append streams that are open."""
        return len(self._sessions)

    def _disk_failed(self) -> None:
        """Report that the node takes no appends until it restarts."""
        self._writable = False
        self.show_health()

    def show_health(self) -> None:
        """Report through the health service whether it takes appends, if that has changed."""
        writable = self.writable
        if writable is not self._shown and not self._stopping:
            self._shown = writable
            status = health_pb2.HealthCheckResponse
            shown = status.SERVING if writable else status.NOT_SERVING
            self._setting_health = asyncio.create_task(self._health.set(SERVICE, shown))

    def _hello(self) -> pb.HelloReply:
        return pb.HelloReply(
            id=self._identity.id,
            incarnation=self._identity.incarnation,
            unclean=self.may_have_lost,
            version=__version__,
            protocol=PROTOCOL,
            max_entry_bytes=self._identity.max_entry_bytes,
            max_read_bytes=_MAX_READ_BYTES,
            writable=self.writable,
            tier="" if self._tier is None else self._tier.place,
            life=self._identity.loss_record.life,
            traces=True,
        )
