"""A whole storage node as a process: disk, journal and server, until a signal."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from storage_grpc.journal import JournalStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.node import LocalNode
from storage_grpc.service.http_port import HttpPort
from storage_grpc.service.metrics import NodePages, of_node
from storage_grpc.service.server import Identity, StorageServer
from storage_grpc.service.settings import CERTIFICATE, ServiceSettings
from storage_grpc.service.tier_calls import ServedTier
from storage_grpc.service.tls import ServerTls
from storage_grpc.tier.opening import open_tier, without_secrets
from sulina.errors import StorageFailed, StorageFull, SulinaError
from sulina.metrics.machine import of_disk, of_machine
from sulina.runtime.logs import start_logging
from sulina.runtime.machine import (
    boot_id,
    keep_files_private,
    tune_for_frames,
    warning_of_readable,
)
from sulina.runtime.machine_watch import MachineWatch, raise_descriptor_limit
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Clock
from sulina.runtime.stop_signal import INTERRUPTED, serve_until_stopped

_log = logging.getLogger(__name__)
_HEALTH_SECONDS = 1.0
"""How often the health service follows the state of the disk."""


@asynccontextmanager
async def storage_node(
    settings: ServiceSettings,
) -> AsyncIterator[tuple[StorageServer, JournalStore]]:
    """A running node; on exit it stops and closes the journal cleanly.

    Raises ``Refused`` if the port or the folder is in use, and ``StorageFailed``.
    """
    disk = RealDisk(settings.data)
    try:
        store = await JournalStore.open(disk, RealClock(), settings.journal, real_random())
        clean = False
        try:
            loss_record = await LossRecord.open(
                disk, store.recovery, boot_id(), f"{real_random().getrandbits(64):016x}"
            )
            identity = Identity(
                settings.id, store.incarnation, loss_record, settings.journal.max_entry_bytes
            )
            async with _tier(settings, LocalNode(settings.id, store, loss_record)) as tier:
                server = StorageServer(identity, store, tier, _tls(settings), settings.data)
                await server.start(settings.host, settings.port)
                showing = asyncio.create_task(_show_health(server, RealClock()), name="health")
                files = None if settings.tls is None else settings.tls.certificate
                try:
                    async with AsyncExitStack() as stack:
                        watch = await stack.enter_async_context(
                            MachineWatch(RealClock(), () if files is None else (files,))
                        )
                        if settings.metrics_port:
                            port = _metrics_port(settings, server, store, watch)
                            await stack.enter_async_context(port)
                        yield server, store
                finally:
                    showing.cancel()
                    await server.stop(settings.stop_seconds)
                with suppress(StorageFull, StorageFailed):
                    await loss_record.save()
                    clean = True
        finally:
            await store.close(clean=clean)
    finally:
        await disk.close()


def _metrics_port(
    settings: ServiceSettings, server: StorageServer, store: JournalStore, watch: MachineWatch
) -> HttpPort:
    clock = RealClock()
    own = (of_node(settings.id, server, store), of_disk(settings.data), of_machine(watch, clock))
    pages = NodePages(server, store, watch, clock, own)
    return HttpPort(pages, clock, settings.host, settings.metrics_port)


async def _show_health(server: StorageServer, clock: Clock) -> None:
    while True:
        await clock.sleep(_HEALTH_SECONDS)
        server.show_health()


@asynccontextmanager
async def _tier(settings: ServiceSettings, node: LocalNode) -> AsyncIterator[ServedTier | None]:
    if not settings.tier:
        yield None
        return
    cache_bytes = settings.tier_cache_mb << 20
    async with open_tier(
        settings.tier, node, RealClock(), real_random(), cache_bytes=cache_bytes
    ) as tier:
        yield ServedTier(tier, without_secrets(settings.tier))


def _tls(settings: ServiceSettings) -> ServerTls | None:
    if settings.tls is None:
        return None
    return ServerTls(settings.tls, ask_clients=settings.tls_clients == CERTIFICATE)


def run(settings: ServiceSettings, *, as_json: bool) -> int:
    """Run a node until SIGTERM or Ctrl-C; returns the exit code of the process.

    The first signal stops it cleanly; a second one exits immediately, which loses nothing that was
    acknowledged. With ``as_json`` it prints one line of JSON when it is ready. Errors are one
    sentence on standard error.
    """
    start_logging(settings.log_level, settings.log_format, node=settings.id)
    keep_files_private()
    readable = warning_of_readable(settings.data)
    if readable is not None:
        _log.warning("%s", readable)
    try:
        # Not uvloop: gRPC has its own poller and is no faster with it.
        return asyncio.run(_serve(settings, as_json))
    except (SulinaError, OSError) as error:
        sys.stderr.write(f"storage node: {error}\n")
        return 1


async def _serve(settings: ServiceSettings, as_json: bool) -> int:
    def announce(running: tuple[StorageServer, JournalStore]) -> None:
        tune_for_frames()
        raise_descriptor_limit()
        _announce(settings, *running, as_json)

    return 0 if await serve_until_stopped(storage_node(settings), announce) else INTERRUPTED


def _announce(
    settings: ServiceSettings, server: StorageServer, store: JournalStore, as_json: bool
) -> None:
    if as_json:
        line = json.dumps(
            {
                "event": "ready",
                "port": server.port,
                "pid": os.getpid(),
                "id": settings.id,
                "incarnation": store.incarnation,
                "unclean": server.may_have_lost,
            }
        )
    else:
        line = (
            f"storage node {settings.id} is ready on {settings.host}:{server.port}, data in "
            f"{settings.data.absolute()}, incarnation {store.incarnation}; Ctrl-C stops it"
        )
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
