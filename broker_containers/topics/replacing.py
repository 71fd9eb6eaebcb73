"""Replaces the objects of consecutive ledgers by one object with the same offsets.

For merging small objects, for typed columns of a schema that came later, and for whatever else
rewrites tiered data. The order guarantees that nothing is lost, doubled or left behind:

1. The topic's list gets a new generation and says what is being replaced.
2. A storage node writes the new object, whose name has the generation, reads it back, verifies it.
3. The list names the new object in place of the others, and the same transaction notes the others
   for deletion, after ``tier.replaced_seconds``: until then, readers that know them can finish.

Each change of the list is a swap that only the owner can make. An interrupted replacement is
continued by whoever owns the topic, from what the list says: the same sources give the same object.
If it cannot succeed, because a source is damaged or was deleted by retention, it is given up: the
list forgets it, and notes its object for deletion. A generation is never used twice.

**To rewrite for another purpose,** add a kind to ``Rewrite`` and what it does to
``storage_grpc.tier.replacing``, and call :meth:`Replacing.replace_objects`. The new object may lack
offsets: the encoder, objects, readers and lists allow for it, and ``TieredRef.records`` says how
many records are left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import groupby

from broker_containers.topic_log.cleanup import new_head, note_given_up
from broker_containers.topic_log.managed_ledger import ManagedLedger
from storage_grpc.tier.tier import (
    Offloaded,
    ReplaceJob,
    Rewrite,
    SourceObject,
    Tier,
    head_of,
    place_of,
)
from sulina.errors import Fenced, Refused, Retriable, SulinaError, Unavailable, UnknownOutcome
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys import erasures, unreferenced_objects
from sulina.metadata.keys.erasures import ErasedObject
from sulina.metadata.keys.ledger_list import (
    LedgerList,
    LedgerRef,
    LedgerState,
    Replacement,
)
from sulina.metadata.store import Op
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

MOST = unreferenced_objects.LEDGERS_PER_RECORD
"""The maximum number of objects that one replaces."""
_ERASE = (Rewrite.ERASE, Rewrite.ERASE_OFFSETS)
_ALSO_NEWEST = (Rewrite.TYPED, *_ERASE)
"""Kinds that may replace the object of the newest closed ledger."""
SchemasOf = Callable[[TopicName], Awaitable[tuple[SchemaVersion, ...]]]


def mark_of(schemas: Sequence[SchemaVersion]) -> str:
    """A checksum of the versions that the typed columns of an object are made with; "" of none."""
    if not schemas:
        return ""
    numbers = sorted((version.id, version.number) for version in schemas)
    return blake2b(repr(numbers).encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Erase:
    """Whose records to erase, and the time that they say."""

    key_digests: tuple[str, ...]
    erased_us: int
    offsets: erasures.Ranges = ()
    """Only records at these offsets, if given."""
    request: int = 0
    """The request, which gets the proof."""


def replaceable(refs: Sequence[LedgerRef], rewrite: Rewrite = Rewrite.MERGE) -> list[LedgerRef]:
    """Ledgers that may be replaced: in objects only, and followed by a closed ledger.

    A takeover reads the state of producers from the newest ledger, which is therefore left alone,
    except by what leaves all frames and sequences as they are.
    """
    closed = [ref.id for ref in refs if ref.state is LedgerState.CLOSED and ref.records > 0]
    newest = [] if rewrite in _ALSO_NEWEST else closed[-1:]
    return [ref for ref in refs if ref.records and not ref.is_local and ref.id not in newest]


def runs(refs: Sequence[LedgerRef], rewrite: Rewrite = Rewrite.MERGE) -> list[list[LedgerRef]]:
    """The ledgers of ``refs`` that may be replaced, as runs without anything between them."""
    wanted = {ref.id for ref in replaceable(refs, rewrite)}
    grouped = groupby(refs, key=lambda ref: ref.id in wanted)
    return [list(group) for is_wanted, group in grouped if is_wanted]


def replacement_of(
    refs: Sequence[LedgerRef],
    generation: int,
    rewrite: Rewrite,
    limits: tuple[int, int] = (0, 0),
    erase: Erase | None = None,
) -> Replacement:
    """What replaces ``refs``, which are consecutive; ``limits`` are those of a compaction."""
    erase = erase or Erase((), 0)
    last = refs[-1]
    assert last.last_offset is not None
    return Replacement(
        generation,
        rewrite,
        last.id,
        refs[0].first_offset,
        last.last_offset,
        *limits,
        erase.key_digests,
        erase.erased_us,
        erase.offsets,
        erase.request,
    )


def job_of(
    topic: TopicName,
    under_way: Replacement,
    refs: Sequence[LedgerRef],
    schemas: Sequence[SchemaVersion],
    later: Sequence[LedgerRef] = (),
) -> ReplaceJob:
    """The work of a replacement, for a storage node; a compaction compares with ``later``."""
    sources, others = (tuple(map(partial(_source, topic), each)) for each in (refs, later))
    return ReplaceJob(
        new_head(topic, under_way),
        sources,
        Rewrite(under_way.kind),
        tuple(schemas),
        others,
        under_way.tombstones_before_us,
        under_way.key_digests,
        under_way.erased_us,
        under_way.offsets,
    )


class Replacing:
    """Replacements of the topics that a broker owns. Any number of tasks may use it."""

    def __init__(self, tier: Tier | None, clock: Clock) -> None:
        self._tier = tier
        self._clock = clock
        self._busy: set[TopicName] = set()

    async def replace_objects(
        self,
        log: ManagedLedger,
        ledgers: Sequence[LedgerRef],
        rewrite: Rewrite,
        schemas: Sequence[SchemaVersion] = (),
        *,
        seconds: float,
        keep_seconds: float,
    ) -> LedgerRef:
        """Replace the objects of consecutive ledgers of ``log`` by one; returns its ledger.

        May take minutes, at most ``seconds`` for the object. The replaced ones are deleted
        ``keep_seconds`` later. Raises ``Refused`` if another replacement of the topic is under way,
        or these ledgers can't be replaced; ``Retriable`` or ``UnknownOutcome``, after which
        :meth:`resume` continues; ``Fenced``; and other errors, after which it is given up.
        """
        if not 0 < len(ledgers) <= MOST:
            raise Refused(f"an object can replace 1 to {MOST} others, not {len(ledgers)}")
        await self._plan(log, ledgers, rewrite)
        return await self.resume(log, schemas, seconds=seconds, keep_seconds=keep_seconds)

    async def compact_objects(
        self,
        log: ManagedLedger,
        ledgers: Sequence[LedgerRef],
        schemas: Sequence[SchemaVersion] = (),
        *,
        seconds: float,
        keep_seconds: float,
    ) -> LedgerRef:
        """As ``replace_objects``, with the newest record of each key only, in the round of
        compaction that is under way."""
        round_ = log.compaction
        is_settled = (ledgers[-1].last_offset or 0) < round_.settled
        limits = round_.until, round_.tombstones_before_us if is_settled else 0
        await self._plan(log, ledgers, Rewrite.COMPACT, limits)
        return await self.resume(log, schemas, seconds=seconds, keep_seconds=keep_seconds)

    async def erase_objects(
        self,
        log: ManagedLedger,
        ledgers: Sequence[LedgerRef],
        erase: Erase,
        schemas: Sequence[SchemaVersion] = (),
        *,
        seconds: float,
        keep_seconds: float,
    ) -> Offloaded:
        """As ``replace_objects``, without the content of records of some keys or offsets.

        Raises ``NotFound`` as well, if there are no such records.
        """
        rewrite = Rewrite.ERASE_OFFSETS if erase.offsets else Rewrite.ERASE
        await self._plan(log, ledgers, rewrite, erase=erase)
        _, made = await self._finish(log, schemas, seconds, keep_seconds)
        return made

    async def _plan(
        self,
        log: ManagedLedger,
        ledgers: Sequence[LedgerRef],
        rewrite: Rewrite,
        limits: tuple[int, int] = (0, 0),
        erase: Erase | None = None,
    ) -> None:
        """Have the list say what is being replaced, before there is an object that does."""

        def planned(before: LedgerList) -> LedgerList:
            wanted = replacement_of(ledgers, before.generation + 1, rewrite, limits, erase)
            if before.replacing is not None:
                raise Refused(f"objects of {log.topic} are being replaced already: try again later")
            there = before.run(wanted.first_offset, wanted.last_offset)
            allowed = set(replaceable(before.visible, rewrite))
            if there != tuple(ledgers) or not set(there) <= allowed:
                raise Refused(
                    f"ledgers {ledgers[0].id} to {ledgers[-1].id} of {log.topic} can't be replaced "
                    "now: they changed, are not in objects only, or are the newest"
                )
            return replace(before, generation=wanted.generation, replacing=wanted)

        await log.commit(planned)

    async def resume(
        self,
        log: ManagedLedger,
        schemas: Sequence[SchemaVersion] = (),
        *,
        seconds: float,
        keep_seconds: float,
    ) -> LedgerRef:
        """Continue the replacement that the list says is under way; as ``replace_objects``."""
        return (await self._finish(log, schemas, seconds, keep_seconds))[0]

    async def _finish(
        self,
        log: ManagedLedger,
        schemas: Sequence[SchemaVersion],
        seconds: float,
        keep_seconds: float,
    ) -> tuple[LedgerRef, Offloaded]:
        if log.topic in self._busy or log.replacement is None:
            raise Refused(f"no replacement of objects of {log.topic} has to be continued")
        self._busy.add(log.topic)
        try:
            return await self._resume(log, log.replacement, schemas, seconds, keep_seconds)
        except (Retriable, UnknownOutcome, Fenced):
            raise
        except SulinaError:
            await self.give_up(log)
            raise
        finally:
            self._busy.discard(log.topic)

    @property
    def ready(self) -> bool:
        """Whether an object store is available."""
        return self._tier is not None and self._tier.ready

    def is_busy(self, topic: TopicName) -> bool:
        """Whether this process works on a replacement of the topic."""
        return topic in self._busy

    async def give_up(self, log: ManagedLedger) -> None:
        """Forget the replacement under way; its object, if it exists, will be deleted."""
        under_way = log.replacement
        if under_way is None:
            return

        def without(before: LedgerList) -> LedgerList:
            _check(before, under_way)  # a swap in doubt may have replaced them after all
            return replace(before, replacing=None)

        await log.commit(without, [note_given_up(log.topic, under_way, self._clock.wall_us())])

    async def _resume(
        self,
        log: ManagedLedger,
        under_way: Replacement,
        schemas: Sequence[SchemaVersion],
        seconds: float,
        keep_seconds: float,
    ) -> tuple[LedgerRef, Offloaded]:
        refs = log.run(*_range(under_way))
        if not refs:
            raise Refused(f"retention deleted objects of {log.topic} that were being replaced")
        job = job_of(log.topic, under_way, refs, schemas, _later(log.refs, under_way))
        made = await self._write(job, seconds)
        new = replace(
            refs[-1],
            first_offset=under_way.first_offset,
            bytes=_bytes_left(refs, made.ref.records),
            first_time_us=min(ref.first_time_us for ref in refs),
            last_time_us=max(ref.last_time_us for ref in refs),
            tiered=replace(made.ref, local=False, schema=mark_of(schemas)),
        )
        keep_us = round(keep_seconds * 1e6)
        places = [place_of(head_of(log.topic, ref)) for ref in refs]
        note = unreferenced_objects.put_replaced(
            log.topic, places, place_of(job.head), self._clock.wall_us(), keep_us
        )
        also = [note]
        if under_way.kind in _ERASE and under_way.request:
            proof = ErasedObject(*_range(under_way), made.erased, made.others)
            also.append(
                erasures.put_proof(log.topic, under_way.request, under_way.generation, proof)
            )
        await self._swap(log, under_way, refs, new, also)
        return new, made

    async def _swap(
        self,
        log: ManagedLedger,
        under_way: Replacement,
        refs: Sequence[LedgerRef],
        new: LedgerRef,
        also: Sequence[Op],
    ) -> None:
        """The list names the new object, in one transaction with ``also``: the note of the others
        and the proof of an erasure."""

        def swapped(before: LedgerList) -> LedgerList:
            _check(before, under_way)
            if before.run(*_range(under_way)) != tuple(refs):
                raise Refused(f"the objects of {log.topic} changed while they were replaced")
            return before.replaced(new)

        await log.commit(swapped, also)

    async def _write(self, job: ReplaceJob, seconds: float) -> Offloaded:
        if self._tier is None:
            raise Unavailable("no object store is available: objects can't be replaced now")
        try:
            return await within(self._clock, seconds, self._tier.replace(job))
        except TimeoutError:
            # Given up, not continued: it may be too much, or a node may hang.
            raise Refused(
                f"the object was not written within {seconds:g} s: raise tier.offload_seconds, or "
                "replace fewer at once"
            ) from None


def _check(before: LedgerList, under_way: Replacement) -> None:
    if before.replacing != under_way:
        raise Refused(f"the replacement of generation {under_way.generation} is over")


def _range(under_way: Replacement) -> tuple[int, int]:
    return under_way.first_offset, under_way.last_offset


def _later(refs: Sequence[LedgerRef], under_way: Replacement) -> list[LedgerRef]:
    """The ledgers after those of a compaction that it compares with."""
    return [
        ref
        for ref in refs
        if ref.records
        and ref.first_offset > under_way.last_offset
        and (ref.last_offset or 0) < under_way.until
    ]


def _bytes_left(refs: Sequence[LedgerRef], records: int | None) -> int:
    """The bytes of ledgers, in proportion to the records that are left of them."""
    whole = sum(ref.bytes for ref in refs)
    if records is None:
        return whole
    return whole * records // max(sum(map(records_in, refs)), 1)


def records_in(ref: LedgerRef) -> int:
    """How many records a closed ledger has."""
    left = None if ref.tiered is None else ref.tiered.records
    return ref.records if left is None else left


def _source(topic: TopicName, ref: LedgerRef) -> SourceObject:
    assert ref.tiered is not None
    return SourceObject(head_of(topic, ref), ref.tiered.digest)
