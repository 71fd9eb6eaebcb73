"""Erases the records of keys from a topic: wherever its records are, offsets stay.

The open ledger is closed, everything becomes objects, entries on storage nodes are deleted, and
then each object that has one of the keys is replaced by one without their content. What consumers
have not taken from memory yet is read again. Only digests of keys are passed on and stored.

Each step can be repeated: an erasure that is interrupted, by an error or because the topic moved,
is started again and finds what is left. It is done when no object that the topic lists has a record
with one of the keys; replaced objects are deleted after their time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import Erase, Replacing
from broker_containers.topics.tiering import Tiering, untiered
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import Fenced, NotFound, Refused, Retriable, SulinaError, Unavailable
from sulina.metadata.keys import unreferenced_objects
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_ATTEMPTS = 5
_LISTED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Rewritten:
    """An object that an erasure replaced."""

    first_offset: int
    last_offset: int
    erased: int
    others: str
    """The digest of all its other records, the same before and after."""


@dataclass(slots=True)
class Erasure:
    """How far an erasure is."""

    topic: TopicName
    key_digests: tuple[str, ...]
    began_us: int
    state: str = "closing"
    """closing, tiering, rewriting, done or failed."""
    until: int = 0
    """Records below this offset are erased."""
    searched: int = 0
    """Everything below this offset was searched."""
    rewritten: list[Rewritten] = field(default_factory=list)
    gone_us: int = 0
    """When the last object that was replaced is deleted, once it is done."""
    problem: str = ""


class Erasing:
    """Erasures of the topics that a broker owns: one at a time for each."""

    def __init__(
        self,
        tier: Tier | None,
        store: MetadataStore,
        replacing: Replacing,
        tiering: Tiering,
        clock: Clock,
    ) -> None:
        self._tier = tier
        self._store = store
        self._replacing = replacing
        self._tiering = tiering
        self._clock = clock
        self._known: dict[TopicName, Erasure] = {}
        self._tasks: dict[TopicName, asyncio.Task[None]] = {}

    def start(self, topic: Topic, key_digests: Sequence[str]) -> Erasure:
        """Begin an erasure, unless the same one is under way.

        Raises ``Refused`` without an object store, or if another one is under way.
        """
        log, wanted = topic.log, tuple(sorted(set(key_digests)))
        if not isinstance(log, ManagedLedger):
            raise Refused(f"{topic.name} stores nothing: there is nothing to erase")
        if self._tier is None or not self._tier.ready:
            raise Refused(
                f"{topic.name} has no object store, and records are erased by rewriting objects: "
                "start storage nodes with --tier, or have retention delete everything "
                "(retention_ms), or delete the topic"
            )
        running = self._tasks.get(log.topic)
        if running is not None and not running.done():
            known = self._known[log.topic]
            if known.key_digests != wanted:
                raise Refused(f"another erasure of {log.topic} is under way: try again later")
            return known
        erasure = Erasure(log.topic, wanted, self._clock.wall_us())
        self._known[log.topic] = erasure
        self._tasks[log.topic] = asyncio.create_task(self._run(topic, log, self._tier, erasure))
        return erasure

    def status(self, topic: TopicName) -> Erasure:
        """The latest erasure of a topic here. Raises ``NotFound`` if there was none."""
        found = self._known.get(topic)
        if found is None:
            raise NotFound(
                f"this broker knows of no erasure of {topic}: if one was under way when the topic "
                "moved, start it again"
            )
        return found

    async def close(self) -> None:
        """Stop all of them."""
        await stop_tasks(*self._tasks.values())

    async def _run(self, topic: Topic, log: ManagedLedger, tier: Tier, erasure: Erasure) -> None:
        try:
            await self._erase(topic, log, tier, erasure)
            erasure.state = "done"
        except SulinaError as error:
            erasure.state, erasure.problem = "failed", str(error)
            _log.warning("erasing from %s failed: %s", log.topic, error)
        except Exception:
            erasure.state, erasure.problem = "failed", "unexpected error: see the broker's log"
            _log.exception("erasing from %s failed", log.topic)

    async def _erase(self, topic: Topic, log: ManagedLedger, tier: Tier, erasure: Erasure) -> None:
        await log.settle()
        await log.roll()
        erasure.until, erasure.state = log.end, "tiering"
        await self._all_tiered(log, erasure.until)
        await self._tiering.drop_local(log, at_once=True)
        erasure.state = "rewriting"
        while (ref := _next(log.refs, erasure)) is not None:
            assert ref.last_offset is not None
            there = await tier.count_keys(head_of(log.topic, ref), erasure.key_digests)
            if not there or await self._rewrite(log, ref, erasure):
                erasure.searched = ref.last_offset + 1
        topic.tail.drop_below(erasure.until)
        for subscription in topic.subscriptions.values():
            subscription.load_again()
        erasure.gone_us = max(
            await self._gone_us(log.topic), *(each.until_us for each in log.removed[1]), 0
        )

    async def _all_tiered(self, log: ManagedLedger, until: int) -> None:
        """Wait until everything below ``until`` is in objects."""
        settings = self._tiering.settings
        end = self._clock.now() + settings.offload_seconds
        while any(ref.first_offset < until for ref in untiered(log.refs)):
            if not log.usable:
                raise Fenced(f"{log.topic} has another owner now: start the erasure again")
            if self._clock.now() > end:
                raise Unavailable(
                    f"{log.topic} was not tiered within {settings.offload_seconds:g} s: see the "
                    "log for the reason, then start the erasure again"
                )
            await self._tiering.flush(log)
            await self._clock.sleep(_LOOK_SECONDS)

    async def _rewrite(self, log: ManagedLedger, ref: LedgerRef, erasure: Erasure) -> bool:
        """Replace the object of ``ref``, once no other replacement is under way; False if that
        has replaced it meanwhile."""
        settings = self._tiering.settings
        for attempt in range(_ATTEMPTS):
            while log.replacement is not None and log.usable:
                await self._clock.sleep(_LOOK_SECONDS)
            if not log.usable:
                raise Fenced(f"{log.topic} has another owner now: start the erasure again")
            if ref not in log.refs:
                return False
            schemas = await self._tiering.schemas_of(log.topic) if settings.typed_columns else ()
            try:
                made = await self._replacing.erase_objects(
                    log,
                    [ref],
                    Erase(erasure.key_digests, erasure.began_us),
                    schemas,
                    seconds=settings.offload_seconds,
                    keep_seconds=settings.replaced_seconds,
                )
            except (Retriable, Refused) as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                _log.info("erasing from %s: %s; trying again", log.topic, error)
                await self._clock.sleep(_LOOK_SECONDS)
                continue
            assert ref.last_offset is not None
            erasure.rewritten.append(
                Rewritten(ref.first_offset, ref.last_offset, made.erased, made.others)
            )
            return True
        return False

    async def _gone_us(self, topic: TopicName) -> int:
        """When the last replaced or removed object of the topic is deleted."""
        gone, after = self._clock.wall_us(), None
        while found := await unreferenced_objects.list_some(self._store, _LISTED_AT_ONCE, after):
            after = found[-1].key
            for each in found:
                if each.value.topic == str(topic):
                    gone = max(gone, each.value.since_us + each.value.keep_us)
        return gone


def _next(refs: Sequence[LedgerRef], erasure: Erasure) -> LedgerRef | None:
    """The first ledger with records that was not searched yet."""
    for ref in refs:
        last = ref.last_offset
        if ref.records and last is not None and erasure.searched <= last < erasure.until:
            return ref
    return None
