"""Writes audit records to their topic, in the order of this broker's chain.

One task writes everything. Entries that callers wait for and summaries of others share one queue;
a batch whose outcome is unknown is written again unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_containers.audit.summaries import Summaries
from sulina.audit import TOPIC, AuditEntry, AuditRecord, ChainHead, decode, encode
from sulina.errors import AlreadyExists, NotFound, SulinaError
from sulina.metadata.keys import audit
from sulina.metadata.store import MetadataStore
from sulina.model import Start
from sulina.operations.client import AdminClient
from sulina.operations.messages import NewMessage
from sulina.runtime.deadline import within
from sulina.runtime.machine import append_durably
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_BATCH: Final = 256
_PAGE: Final = 1_000
_TICK_SECONDS: Final = 1.0
"""How often summaries are looked for, and the longest pause after a failure."""
_FIRST_PAUSE_SECONDS: Final = 0.02
_ALARM_SECONDS: Final = 3.0
"""How long records can't be written before that is logged as an error."""
_HEAD_SECONDS: Final = 5.0
"""How often the end of the chain is stored while records are being written."""
_CLOSE_SECONDS: Final = 2.0


@dataclass(slots=True, eq=False)
class PendingEntry:
    """An entry that is not durable yet."""

    entry: AuditEntry
    durable: asyncio.Future[int] | None = None
    """Gets the record's sequence."""
    record: AuditRecord | None = None
    """The record, once the entry has a place in the chain."""


class ChainWriter:
    """The chain of one broker. Call ``start``, then ``close``, which writes what is queued."""

    def __init__(
        self,
        broker: str,
        store: MetadataStore,
        clock: Clock,
        admin: AdminClient,
        summaries: Summaries,
        file: Path | None = None,
    ) -> None:
        """``admin`` reaches the owner of the topic; ``file`` gets a copy of the records."""
        self._broker = broker
        self._store = store
        self._clock = clock
        self._admin = admin
        self._file = file
        self.summaries = summaries
        self.pending: deque[PendingEntry] = deque()
        self._batch: list[PendingEntry] = []
        """What has a place in the chain and is being written."""
        self._news = asyncio.Event()
        self._head: ChainHead | None = None
        """The end of the chain, including the batch; None until it was read."""
        self._stored = ChainHead(broker), 0
        """The end of what is durable, and its offset."""
        self._noted = ChainHead(broker)
        """The end of the chain as the metadata has it."""
        self._noted_at = 0.0
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self.cause = "the broker is starting"
        """Why records can't be written."""
        self.failing = False
        self._failing_since: float | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self.written = self.failed = self.file_failed = 0

    @property
    def open(self) -> bool:
        """Whether records are accepted."""
        return self._task is not None and not self._closing

    @property
    def waiting(self) -> int:
        """Records that are not durable yet."""
        return len(self.pending) + len(self._batch)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="audit trail")

    async def close(self) -> None:
        """Write what is queued and counted, for two seconds at most."""
        if self._task is not None:
            self._closing = True
            self._news.set()
            with suppress(TimeoutError):
                await within(self._clock, _CLOSE_SECONDS, self._task)
            self._task = None

    def add(self, entry: AuditEntry) -> PendingEntry:
        """Queue an entry that its caller waits for, by ``durable``."""
        pending = PendingEntry(entry, asyncio.get_running_loop().create_future())
        self.pending.append(pending)
        self._news.set()
        return pending

    def note(self, entry: AuditEntry) -> None:
        """Queue or count an entry that nobody waits for: the table of summaries is bounded, and
        so are therefore the entries that wait."""
        first = self.summaries.add(entry)
        if first is not None:
            self.pending.append(PendingEntry(first))
            self._news.set()

    async def _run(self) -> None:
        while True:
            if not self.waiting and not self._closing:
                with suppress(TimeoutError):
                    await within(self._clock, _TICK_SECONDS, self._news.wait())
            self._news.clear()
            if not self.pending:
                # Only then: while nothing can be written, the table holds what was counted.
                due = self.summaries.due(self._clock.wall_us(), all_rows=self._closing)
                self.pending.extend(map(PendingEntry, due))
            try:
                await self._write()
            except Exception as error:
                await self._clock.sleep(self._note_failure(error))
            else:
                if self._closing and not self.pending:
                    return

    def _note_failure(self, error: Exception) -> float:
        """How long to wait. A topic that moves is no reason for an alarm: only what lasts is."""
        self.failed += 1
        self.cause = str(error)
        now = self._clock.now()
        if self._failing_since is None:
            self._failing_since = now
            self._pause = _FIRST_PAUSE_SECONDS
        self._pause = min(2 * self._pause, _TICK_SECONDS)
        if not isinstance(error, SulinaError):
            _log.error("writing the audit trail failed", exc_info=error)
        if not self.failing and now >= self._failing_since + _ALARM_SECONDS:
            self.failing = True
            _log.error(
                "the audit trail can't be written: administrative changes are refused until it "
                "can (%s)",
                error,
            )
        return self._pause

    async def _write(self) -> None:
        """Write the next records, and note the end of the chain from time to time."""
        if self.waiting:
            if self._head is None:
                self._head = await self._find_head()
            while self.pending and len(self._batch) < _BATCH:
                each = self.pending.popleft()
                each.record = self._head.next(each.entry)
                self._head = each.record.head
                self._batch.append(each)
            await self._write_batch()
        head, offset = self._stored
        idle = not self.pending or self._closing
        if head != self._noted and (idle or self._clock.now() > self._noted_at + _HEAD_SECONDS):
            await audit.put_head(self._store, head, offset)
            self._noted, self._noted_at = head, self._clock.now()

    async def _write_batch(self) -> None:
        payloads = [encode(each.record) for each in self._batch if each.record is not None]
        messages = [NewMessage(payload, self._broker.encode()) for payload in payloads]
        try:
            at = await self._admin.messages.publish(TOPIC, messages)
        except NotFound:
            await self._create_topic()
            at = await self._admin.messages.publish(TOPIC, messages)
        assert self._head is not None
        self._stored = self._head, at.offset + len(payloads) - 1
        self.written += len(payloads)
        self._failing_since = None
        if self.failing:
            self.failing = False
            _log.warning("the audit trail is written again")
        written, self._batch = self._batch, []
        for each in written:
            if each.durable is not None and not each.durable.done():
                assert each.record is not None
                each.durable.set_result(each.record.sequence)
        await self._copy(payloads)

    async def _copy(self, payloads: list[bytes]) -> None:
        """Append to the file; a failure is logged and counted, but stops nothing."""
        if self._file is None:
            return
        lines = b"".join(payload + b"\n" for payload in payloads)
        try:
            await asyncio.to_thread(append_durably, self._file, lines)
        except OSError as error:
            self.file_failed += len(payloads)
            _log.error("audit records are missing in %s: %s", self._file, error)

    async def _create_topic(self) -> None:
        with suppress(AlreadyExists):
            await self._admin.topics.create(TOPIC)

    async def _find_head(self) -> ChainHead:
        """Where the chain of this broker ends: what the metadata has, and what was written since.

        If records that the metadata knows are gone, the chain continues after them, so that a
        verification finds the gap.
        """
        known = await audit.get_head(self._store, self._broker)
        head, offset = ChainHead(self._broker, known.sequence, known.hash), known.offset
        self._noted = head
        at_end, position = False, offset
        while not at_end:
            try:
                start = Start.offset(position)
                page = await self._admin.messages.peek(TOPIC, start=start, limit=_PAGE)
            except NotFound:
                await self._create_topic()
                break
            for message in page.messages:
                with suppress(ValueError):
                    record = decode(message.payload)
                    if record.broker == self._broker and record.sequence > head.sequence:
                        head, offset = record.head, message.offset
            position, at_end = page.next_offset, page.at_end or not page.messages
        self._stored = head, offset
        return head
