"""Requests to erase records: kept in the metadata until they are done, by whoever owns the topic.

A request is durable when it is accepted. The owner carries out those of a topic one after the
other, and some topics at a time; if the topic moves or the broker stops, the next owner goes on.
What fails for a reason that may pass is tried again, with increasing pauses, and says why. The
last step is recorded in the audit trail before the request ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Protocol

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.erasure_work import Cancelled, ErasureWork
from broker_containers.topics.topic import Topic
from sulina.errors import Fenced, NotFound, Refused, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.keys import erasures, ledgers
from sulina.metadata.keys.erasures import (
    MOST_KEYS,
    MOST_OPEN,
    MOST_RANGES,
    MOST_REPEATED,
    ErasedObject,
    ErasureRequest,
    ErasureState,
    Ranges,
)
from sulina.metadata.keys.ledger_list import LedgerList
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 4
"""Topics that a broker erases from at the same time."""
_CHECK_SECONDS: Final = 2.0
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 300.0


class RecordedErasure(Protocol):
    """Records the end of erasures in the audit trail."""

    async def erased(
        self, topic: str, said: Mapping[str, Any], work: Callable[[], Awaitable[None]]
    ) -> None:
        """Record what was erased, then end the request."""
        ...


class Erasing:
    """Erasures of the topics that a broker owns. Works while :meth:`run` does."""

    def __init__(
        self,
        work: ErasureWork,
        store: MetadataStore,
        clock: Clock,
        topics: Callable[[], Iterable[Topic]],
    ) -> None:
        self.audit: RecordedErasure | None = None
        self._work = work
        self._store = store
        self._clock = clock
        self._topics = topics
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._tasks: dict[TopicName, asyncio.Task[None]] = {}
        self._shown: dict[TopicName, ErasureRequest] = {}
        """The request that is being carried out, with more recent progress than is stored."""

    # ---- requests ----

    async def request(
        self, topic: Topic, key_digests: Iterable[str] = (), offsets: Ranges = ()
    ) -> ErasureRequest:
        """Store a request; it is durable on return. If the same one is open already, and nothing
        was published since that it would miss, that one is returned.

        With keys and offsets, only records of these keys at these offsets are erased. Raises
        ``Refused`` without an object store, or if it asks for nothing or too much; ``Retriable``.
        """
        log = topic.log
        keys, ranges = tuple(sorted(set(key_digests))), _joined(offsets)
        if not isinstance(log, ManagedLedger):
            raise Refused(f"{topic.name} stores nothing: there is nothing to erase")
        _check_size(keys, ranges)
        if not self._work.ready:
            raise Refused(
                f"{topic.name} has no object store, and records are erased by rewriting objects: "
                "start storage nodes with --tier, or have retention delete everything "
                "(retention_ms), or delete the topic"
            )
        async with self._turn:
            await log.settle()
            await log.roll()
            if not log.usable:
                raise Retriable(f"{log.topic} can't close its ledger now: try again")
            end = _end_of_closed(log)
            needed = min(end, ranges[-1][1] + 1) if ranges else end
            known = await self.known(log.topic)
            for each in known:
                is_open, same = each.id in log.list.erasures, (each.key_digests, each.offsets)
                if is_open and same == (keys, ranges) and each.until >= needed:
                    return each
            request = ErasureRequest(
                log.list.last_erasure + 1, self._clock.wall_us(), end, keys, ranges
            )

            def added(before: LedgerList) -> LedgerList:
                if len(before.erasures) >= MOST_OPEN:
                    raise Refused(
                        f"{log.topic} has {len(before.erasures)} erasures under way: wait, or "
                        "cancel some with `sulina topic erase --cancel`"
                    )
                if len(before.repeated) >= MOST_REPEATED:
                    raise Refused(
                        f"{log.topic} keeps data that retention removed, and remembers "
                        f"{len(before.repeated)} erasures to repeat if it is restored: wait until "
                        "tier.grace_seconds have passed, or erase more keys at once"
                    )
                assert before.last_erasure + 1 == request.id, "requests take turns"
                return replace(
                    before,
                    erasures=(*before.erasures, request.id),
                    last_erasure=request.id,
                )

            gone = erasures.forget(log.topic, known, (*log.list.erasures, *log.list.repeated))
            await log.commit(added, [erasures.put(log.topic, request), *gone])
        self._wake.set()
        return request

    async def cancel(self, topic: Topic, number: int) -> ErasureRequest:
        """End a request that is open. The object being replaced may still be; what is erased stays
        erased. Raises ``NotFound``, or ``Refused`` if it has ended."""
        log = topic.log
        if not isinstance(log, ManagedLedger):
            raise _unknown(topic.name, number)
        async with self._turn:
            found = await erasures.get(self._store, log.topic, number)
            if found is None:
                raise _unknown(topic.name, number)
            if number not in log.list.erasures:
                raise Refused(f"erasure {number} of {topic.name} has ended: it is {found.state}")
            ended = replace(self._shown_or(log.topic, found), state=ErasureState.CANCELLED)
            await self._end(log, ended)
            return ended

    async def known(self, topic: TopicName) -> list[ErasureRequest]:
        """The requests of a topic that are open or remembered, oldest first."""
        found = await erasures.get_all(self._store, topic)
        open_ = (await ledgers.get(self._store, topic)).list.erasures if found else ()
        return [
            self._shown_or(topic, _reopened(each) if each.id in open_ else each) for each in found
        ]

    async def proofs(self, topic: TopicName, number: int) -> list[ErasedObject]:
        """The objects that a request has replaced so far."""
        return await erasures.proofs(self._store, topic, number)

    def _shown_or(self, topic: TopicName, stored: ErasureRequest) -> ErasureRequest:
        shown = self._shown.get(topic)
        return shown if shown is not None and shown.id == stored.id else stored

    # ---- work ----

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self._wake.clear()
                self.begin()
                with suppress(TimeoutError):
                    await within(self._clock, _CHECK_SECONDS, self._wake.wait())
        finally:
            await stop_tasks(*self._tasks.values())

    def begin(self) -> None:
        """Begin to work on the requests of open topics, as many as may be at once."""
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}
        if not self._work.ready:
            return
        for topic in self._topics():
            if len(self._tasks) >= _AT_ONCE:
                return
            log = topic.log
            if not isinstance(log, ManagedLedger) or not log.usable or log.topic in self._tasks:
                continue
            if log.list.erasures:
                self._tasks[log.topic] = asyncio.create_task(self._all_of(topic, log))

    async def _all_of(self, topic: Topic, log: ManagedLedger) -> None:
        pause = _FIRST_PAUSE
        while log.usable and (waiting := log.list.erasures):
            try:
                await self.carry_out(topic, waiting[0])
                pause = _FIRST_PAUSE
            except Fenced:
                break
            except Exception as error:
                if not isinstance(error, SulinaError):
                    _log.exception("erasing from %s failed; will retry", log.topic)
                    error = Retriable("unexpected error: see the broker's log")
                else:
                    _log.warning("erasing from %s failed; will retry: %s", log.topic, error)
                if (shown := self._shown.get(log.topic)) is not None:
                    self._shown[log.topic] = replace(shown, problem=str(error))
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
        self._shown.pop(log.topic, None)

    async def carry_out(self, topic: Topic, number: int) -> None:
        """Finish a request. Raises ``Fenced``, and ``Retriable`` or ``UnknownOutcome``, after
        which it should be tried again; other errors end it as failed."""
        log = topic.log
        assert isinstance(log, ManagedLedger)
        found = await erasures.get(self._store, log.topic, number)
        assert found is not None, "it is written and deleted together with the list"
        found = _reopened(found)

        def show(request: ErasureRequest) -> None:
            self._shown[log.topic] = request

        show(found)
        try:
            done = await self._work.erase(topic, found, show)
            await self._end(log, replace(done, state=ErasureState.DONE, problem=""))
        except Cancelled:
            pass
        except (Retriable, UnknownOutcome, Fenced):
            raise
        except SulinaError as error:
            _log.warning("erasing from %s failed: %s", log.topic, error)
            failed = replace(
                self._shown_or(log.topic, found), state=ErasureState.FAILED, problem=str(error)
            )
            with suppress(Cancelled):
                await self._end(log, failed)
        self._shown.pop(log.topic, None)

    async def _end(self, log: ManagedLedger, request: ErasureRequest) -> None:
        """Store how a request ended, after the audit trail says so."""
        request = replace(request, ended_us=self._clock.wall_us())

        def ended(before: LedgerList) -> LedgerList:
            if request.id not in before.erasures:
                raise Cancelled
            left = tuple(each for each in before.erasures if each != request.id)
            repeated = before.repeated
            if before.removed and request.state is ErasureState.DONE:
                repeated = (*repeated, request.id)
            return replace(before, erasures=left, repeated=repeated)

        async def work() -> None:
            await log.commit(ended, [erasures.put(log.topic, request)])

        if self.audit is None:
            await work()
            return
        proofs = await self.proofs(log.topic, request.id)
        said = {
            "erasure": request.id,
            "state": str(request.state),
            "objects": len(proofs),
            "erased": sum(each.erased for each in proofs),
            "until": request.until,
            "proof": digest_of(proofs),
        }
        await self.audit.erased(str(log.topic), said, work)


def digest_of(proofs: Iterable[ErasedObject]) -> str:
    """One digest of what an erasure did, for the audit trail: SHA-256 of a line per object."""
    lines = (
        f"{each.first_offset} {each.last_offset} {each.erased} {each.others}\n" for each in proofs
    )
    return sha256("".join(lines).encode()).hexdigest()


def _reopened(request: ErasureRequest) -> ErasureRequest:
    """An open request. If it had ended, what retention had removed was restored since."""
    if not request.state.ended:
        return request
    return replace(
        request, state=ErasureState.WAITING, searched=0, gone_us=0, versions_gone_us=0, problem=""
    )


def _end_of_closed(log: ManagedLedger) -> int:
    """Everything that is stored now is below this offset, which is the end of a ledger. Ledgers
    that retention has removed count: they can be restored."""
    if not log.list.ledgers:
        return 0
    newest = log.list.ledgers[-1]
    return newest.first_offset if newest.last_offset is None else newest.last_offset + 1


def _joined(offsets: Ranges) -> Ranges:
    """Ranges in order, those that overlap or follow each other as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(offsets):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _check_size(keys: tuple[str, ...], ranges: Ranges) -> None:
    if not keys and not ranges:
        raise Refused("nothing to erase: give SHA-256 digests of keys, or offsets")
    if any(not 0 <= first <= last for first, last in ranges):
        raise Refused("each range of offsets needs a first one and a last one that is not smaller")
    if len(keys) > MOST_KEYS or len(ranges) > MOST_RANGES:
        raise Refused(
            f"an erasure has at most {MOST_KEYS:,} keys and {MOST_RANGES:,} ranges of offsets: "
            "make several"
        )


def _unknown(topic: TopicName, number: int) -> NotFound:
    return NotFound(
        f"{topic} has no erasure {number}: `sulina topic erase {topic} --status` shows those it has"
    )
