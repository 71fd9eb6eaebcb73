"""Carries out a request to erase records of a topic: wherever they are, offsets stay.

The open ledger is closed, everything becomes objects, entries on storage nodes are deleted, and
then each object that has such records is replaced by one without their content. What consumers have
not taken from memory yet is read again. Only digests of keys are passed on and stored.

Each step can be repeated: whoever continues an interrupted request finds what is left. It is done
when no object that the topic lists has such a record; replaced objects are deleted after their
time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import Erase, Replacing
from broker_containers.topics.tiering import Tiering, untiered
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import Fenced, Refused, Retriable, SulinaError, Unavailable
from sulina.metadata.keys import erasures, unreferenced_objects
from sulina.metadata.keys.erasures import ErasureRequest, ErasureState, Ranges
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.objects.keeping import Keeping
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.1
_SAVE_SECONDS: Final = 10.0
_ATTEMPTS: Final = 5
_LISTED_AT_ONCE: Final = 100


class Cancelled(Exception):
    """The request is not open any more."""


class ErasureWork:
    """Erases; any number of topics at once, one request of each."""

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

    @property
    def ready(self) -> bool:
        """Whether an object store is available."""
        return self._tier is not None and self._tier.ready

    async def erase(
        self, topic: Topic, request: ErasureRequest, show: Callable[[ErasureRequest], None]
    ) -> ErasureRequest:
        """Erase what a request asks for, and return it as it is then; ``show`` gets its progress.

        May take hours. Raises ``Cancelled``, ``Fenced``, ``Retriable``, and other errors, after
        which it cannot succeed.
        """
        log = topic.log
        assert isinstance(log, ManagedLedger)
        await log.settle()
        request = await self._save(log, replace(request, state=ErasureState.TIERING), show)
        await self._all_tiered(log, request)
        await self._tiering.drop_local(log, at_once=True)
        request = await self._save(log, replace(request, state=ErasureState.REWRITING), show)
        saved = self._clock.now()
        while (ref := _next(log.refs, request)) is not None:
            assert ref.last_offset is not None
            _check_open(log, request)
            if not await self._has_some(log, ref, request) or await self._rewrite(
                log, ref, request
            ):
                request = replace(request, searched=ref.last_offset + 1)
                show(request)
            if self._clock.now() - saved >= _SAVE_SECONDS:
                request, saved = await self._save(log, request, show), self._clock.now()
        topic.tail.drop_below(request.until)
        for subscription in topic.subscriptions.values():
            subscription.load_again()
        gone_us, kept = await self._gone_us(log), await self._keeping()
        return replace(
            request, gone_us=gone_us, versions_gone_us=kept.gone_us(gone_us), kept=kept.text
        )

    async def _keeping(self) -> Keeping:
        """What the object store keeps of deleted objects; the erasure does not depend on it."""
        assert self._tier is not None
        try:
            return await self._tier.keeping()
        except SulinaError as error:
            return Keeping(f"it is not known what the object store keeps ({error})", None)

    async def _save(
        self, log: ManagedLedger, request: ErasureRequest, show: Callable[[ErasureRequest], None]
    ) -> ErasureRequest:
        """Have the next owner know how far it is."""
        _check_open(log, request)
        await log.commit(lambda before: before, [erasures.put(log.topic, request)])
        show(request)
        return request

    async def _all_tiered(self, log: ManagedLedger, request: ErasureRequest) -> None:
        """Wait until everything below the request's end is in objects."""
        settings = self._tiering.settings
        end = self._clock.now() + settings.offload_seconds
        while any(ref.first_offset < request.until for ref in untiered(log.refs)):
            _check_open(log, request)
            if self._clock.now() > end:
                raise Unavailable(
                    f"{log.topic} was not tiered within {settings.offload_seconds:g} s: see the "
                    "log for the reason"
                )
            await self._tiering.flush(log)
            await self._clock.sleep(_LOOK_SECONDS)

    async def _has_some(self, log: ManagedLedger, ref: LedgerRef, request: ErasureRequest) -> bool:
        assert self._tier is not None
        offsets = _offsets(request, ref)
        if request.offsets and not offsets:
            return False
        head = head_of(log.topic, ref)
        return bool(await self._tier.count_erasable(head, request.key_digests, offsets))

    async def _rewrite(self, log: ManagedLedger, ref: LedgerRef, request: ErasureRequest) -> bool:
        """Replace the object of ``ref``, once no other replacement is under way; False if that
        has replaced it meanwhile."""
        settings = self._tiering.settings
        offsets = _offsets(request, ref)
        what = Erase(request.key_digests, request.began_us, offsets, request.id)
        for attempt in range(_ATTEMPTS):
            while log.replacement is not None:
                _check_open(log, request)
                await self._clock.sleep(_LOOK_SECONDS)
            _check_open(log, request)
            if ref not in log.refs:
                return False
            schemas = await self._tiering.schemas_of(log.topic) if settings.typed_columns else ()
            try:
                await self._replacing.erase_objects(
                    log,
                    [ref],
                    what,
                    schemas,
                    seconds=settings.offload_seconds,
                    keep_seconds=settings.replaced_seconds,
                )
                return True
            except (Retriable, Refused) as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                _log.info("erasing from %s: %s; trying again", log.topic, error)
                await self._clock.sleep(_LOOK_SECONDS)
        return False

    async def _gone_us(self, log: ManagedLedger) -> int:
        """When the last replaced or removed object of the topic is deleted."""
        kept = [removal.until_us for removal in log.removal.removed[1]]
        notes = await waiting_objects(self._store, log.topic)
        return max([self._clock.wall_us(), *kept, *(until_us for until_us, _ in notes)])


async def waiting_objects(store: MetadataStore, topic: TopicName) -> list[tuple[int, int]]:
    """The objects of a topic that are to be deleted: when, and how many."""
    notes: list[tuple[int, int]] = []
    after: str | None = None
    while found := await unreferenced_objects.list_some(store, _LISTED_AT_ONCE, after):
        after = found[-1].key
        notes += [
            (each.value.since_us + each.value.keep_us, len(each.value.objects))
            for each in found
            if each.value.topic == str(topic)
        ]
    return notes


def _check_open(log: ManagedLedger, request: ErasureRequest) -> None:
    if not log.usable:
        raise Fenced(f"{log.topic} has another owner now, which continues")
    if request.id not in log.list.erasures:
        raise Cancelled


def _offsets(request: ErasureRequest, ref: LedgerRef) -> Ranges:
    """Where to erase in a closed ledger; none if only keys count."""
    first, last = ref.first_offset, ref.last_offset
    assert last is not None
    whole: Ranges = ()
    if last >= request.until:  # it was merged with later ones
        whole, last = ((first, request.until - 1),), request.until - 1
    cut = ((max(start, first), min(end, last)) for start, end in request.offsets or whole)
    return tuple((start, end) for start, end in cut if start <= end)


def _next(refs: Sequence[LedgerRef], request: ErasureRequest) -> LedgerRef | None:
    """The first ledger with records that was not searched yet."""
    for ref in refs:
        last = ref.last_offset
        if ref.records and last is not None and last >= request.searched:
            return ref if ref.first_offset < request.until else None
    return None
