"""The methods of the service that are for people: the state of a node, and the level of its log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import EntryStore
from storage_grpc.journal import JournalStore
from storage_grpc.service.calls import StorageCalls
from sulina.errors import Refused
from sulina.runtime.logs import LEVELS, apply_log_level, log_level_now
from sulina.version import __version__

_log = logging.getLogger(__name__)


class StateCalls:
    """Of one node; ``folder`` is where its data is, None in memory."""

    def __init__(
        self,
        calls: StorageCalls,
        store: EntryStore,
        folder: Path | None,
        unwritable: Callable[[], str | None],
    ) -> None:
        self._calls = calls
        self._store = store
        self._folder = folder
        self._unwritable = unwritable
        self._started_with = self._level = log_level_now()

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """gRPC handlers by method name."""
        handler = self._calls.handler
        return {
            "Status": handler(pb.StatusRequest, self._status, any_incarnation=True),
            "SetLogLevel": handler(pb.LogLevelRequest, self._set_level, any_incarnation=True),
        }

    async def _status(self, _: pb.StatusRequest) -> pb.StatusReply:
        found = pb.StatusReply(
            version=__version__, unwritable=self._unwritable() or "", log_level=self._level
        )
        if self._folder is not None:
            space = psutil.disk_usage(str(self._folder))
            found.disk_bytes, found.disk_free_bytes = space.total, space.free
        if isinstance(self._store, JournalStore):
            found.journal_files, found.journal_bytes = self._store.usage
            found.reserved_bytes = self._store.reserved_bytes
            found.pending_bytes = self._store.pending_bytes
            found.ledgers = self._store.ledger_counts[0]
            recovery = self._store.recovery
            found.damaged_places = len(recovery.damaged) + recovery.corrupt_records
        return found

    async def _set_level(self, request: pb.LogLevelRequest) -> pb.LogLevelReply:
        level = request.level or self._started_with
        if level not in LEVELS:
            raise Refused(f"there is no log level {level[:40]!r}: choose from {', '.join(LEVELS)}")
        apply_log_level(level, self._started_with)
        _log.warning("the log level is %s now, and was %s", level, self._level)
        self._level = level
        return pb.LogLevelReply(level=level)
