"""Metrics and health of a storage node. They name no topics, so no token protects them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from storage_grpc.journal import JournalStore
from storage_grpc.journal.metrics import of_journal
from storage_grpc.service.http_port import Answer
from storage_grpc.service.server import StorageServer
from sulina.errors import SulinaError
from sulina.metrics.exposition import CONTENT_TYPE, Exposition, Write
from sulina.metrics.machine import ProcessMetrics
from sulina.runtime.machine_watch import MachineWatch
from sulina.runtime.seam import Clock
from sulina.version import __version__

_JSON = "application/json"


def of_node(node: str, server: StorageServer, store: JournalStore) -> Write:
    """What the node is, what it holds, and whether it takes appends."""

    def write(text: Exposition) -> None:
        identity = {"node": node, "version": __version__, "incarnation": store.incarnation}
        text.gauge("sulina_storage_info", "This storage node; always 1.", [(identity, 1)])
        text.gauge("sulina_storage_writable", "1 while it takes appends.", int(server.writable))
        text.gauge(
            "sulina_storage_may_have_lost",
            "1 if it may have lost entries of older ledgers, which are repaired from other nodes.",
            int(server.may_have_lost),
        )
        ledgers, fenced = store.ledger_counts
        text.gauge("sulina_storage_ledgers", "Ledgers with entries here.", ledgers)
        text.gauge("sulina_storage_ledgers_fenced", "Those that take no appends.", fenced)
        text.gauge("sulina_storage_append_streams", "Open append streams.", server.streams)

    return write


class NodePages:
    """``/metrics``, ``/health/live`` and ``/health/ready``."""

    def __init__(
        self,
        server: StorageServer,
        store: JournalStore,
        watch: MachineWatch,
        clock: Clock,
        others: Sequence[Write],
    ) -> None:
        self._server = server
        self._store = store
        self._watch = watch
        self._clock = clock
        self._writes = [of_journal(store), *others, ProcessMetrics().write]

    async def __call__(self, path: str) -> Answer | None:
        """The answer to a GET; None if there is no such page."""
        if path == "/metrics":
            text = Exposition()
            for write in self._writes:
                write(text)
                await self._clock.sleep(0)
            return Answer(200, CONTENT_TYPE, text.encode())
        if path == "/health/live":
            return _health(True, "the process answers")
        if path == "/health/ready":
            reason = await self._unready()
            reserved = f"{self._store.reserved_bytes:,} bytes are reserved for them"
            return _health(reason is None, reason or f"the node takes appends; {reserved}")
        return None

    async def _unready(self) -> str | None:
        """Why brokers should not use the node; None if they should."""
        if self._server.unwritable is not None:
            return self._server.unwritable
        try:
            await self._watch.check_descriptors()
            await self._watch.check_certificates()
        except SulinaError as error:
            return str(error)
        return None


def _health(ready: bool, detail: str) -> Answer:
    body = {"status": "ready" if ready else "unready", "detail": detail}
    return Answer(200 if ready else 503, _JSON, json.dumps(body).encode() + b"\n")
