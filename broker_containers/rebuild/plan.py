"""Decides which ledgers and objects make up a topic, in which order, and how far each counts.

A ledger that was taken over may end with unconfirmed entries: the next owner started before them.
So where a later ledger starts, the earlier one ends. Of objects and those that replaced them, the
newest generation counts, whatever an older list says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from broker_containers.rebuild.survey import FoundLedger, StorageSurvey
from sulina.lake.generations import newest_objects
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.names import TopicName


class OnGap(StrEnum):
    """What to do with a topic that has gaps."""

    STOP = "stop"
    """Leave it unchanged."""
    OLDER = "older"
    """Keep what comes before the first gap."""
    NEWER = "newer"
    """Keep what comes after the last gap."""


@dataclass(frozen=True, slots=True)
class CopiedLedger:
    """Records ``first_offset`` up to ``end`` of a found ledger, to be copied into a new one."""

    ledger: int
    first_offset: int
    end: int
    epoch: int


Piece = LedgerRef | CopiedLedger
"""A ledger to keep, or one to copy."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The planned contents of a topic."""

    topic: TopicName
    known: LedgerList
    pieces: tuple[Piece, ...]
    gaps: tuple[tuple[int, int], ...] = ()
    """Ranges of missing offsets: first, and next existing one."""
    left_aside: tuple[str, ...] = ()
    """What exists and is not used, in words."""
    changed: bool = True
    generation: int = 0
    """The highest that an object of the topic has."""

    @property
    def epoch(self) -> int:
        """Higher than any epoch that the topic had."""
        epochs = [piece.epoch for piece in self.pieces if isinstance(piece, CopiedLedger)]
        return max([self.known.epoch, *epochs]) + 1

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return _end(self.pieces[-1]) if self.pieces else 0


def plan_topics(
    survey: StorageSurvey, known: Mapping[TopicName, LedgerList], on_gap: OnGap
) -> list[TopicPlan]:
    """A plan for every topic that has data or a list, sorted by name."""
    ledgers: dict[TopicName, list[FoundLedger]] = defaultdict(list)
    for ledger in survey.ledgers:
        ledgers[ledger.topic].append(ledger)
    objects: dict[TopicName, list[ObjectSummary]] = defaultdict(list)
    for summary in survey.objects:
        objects[summary.topic].append(summary)
    there = {*(one.id for one in survey.ledgers), *survey.nameless}
    return [
        _plan(topic, known.get(topic, LedgerList()), ledgers[topic], objects[topic], there, on_gap)
        for topic in sorted({*known, *ledgers, *objects})
    ]


def _plan(
    topic: TopicName,
    known: LedgerList,
    ledgers: Iterable[FoundLedger],
    objects: Sequence[ObjectSummary],
    there: set[int],
    on_gap: OnGap,
) -> TopicPlan:
    newest = newest_objects(objects, _name)
    joined = [summary for summary in newest if summary.generation]
    tiered = {summary.ledger: summary for summary in newest}
    aside: list[str] = []
    kept: list[LedgerRef] = []
    for ref in known.ledgers:
        if ref.state is LedgerState.OPEN:
            continue  # its metadata may be as old as the list: it is found by the survey, or lost
        by = next((one for one in joined if _covers(one, ref.first_offset, _end(ref))), None)
        if by is not None and ref.records:
            if not kept or kept[-1].id != by.ledger:
                kept.append(_as_ref(by))
        elif ref.id in tiered and not tiered[ref.id].generation:
            kept.append(_with_object(ref, tiered[ref.id], local=ref.id in there))
        elif ref.id in there:
            kept.append(ref)
        elif ref.records:
            aside.append(f"ledger {ref.id} of the list is on no node and in no object")
    known_ids = {ref.id for ref in kept}
    # A ledger that the list closed is confirmed: nothing before its end can be added.
    end = _end(kept[-1]) if kept else 0
    found: list[Piece] = [
        _as_ref(summary) for summary in tiered.values() if summary.ledger not in known_ids
    ]
    found += [
        CopiedLedger(one.id, one.first_offset, one.end, one.epoch)
        for one in ledgers
        if one.id not in known_ids
        and one.id not in tiered
        # Entries of a replaced object's ledger, on a node that missed their deletion.
        and not any(_covers(each, one.first_offset, one.end) for each in joined)
    ]
    later = [piece for piece in found if piece.first_offset >= end]
    aside += [_in_words(piece) for piece in found if piece not in later]
    generation = max([known.generation, *(summary.generation for summary in objects)])
    made = _join(topic, known, [*kept, *later], aside, on_gap)
    return replace(made, generation=generation)


def _join(
    topic: TopicName,
    known: LedgerList,
    pieces: list[Piece],
    aside: list[str],
    on_gap: OnGap,
) -> TopicPlan:
    runs: list[list[Piece]] = []
    gaps: list[tuple[int, int]] = []
    for piece in _one_after_the_other(pieces):
        end = _end(runs[-1][-1]) if runs else None
        if end is not None and piece.first_offset > end:
            gaps.append((end, piece.first_offset))
        if not runs or (end is not None and piece.first_offset > end):
            runs.append([])
        runs[-1].append(piece)
    chosen = runs[0] if runs else []
    if gaps:
        chosen = {OnGap.STOP: [], OnGap.OLDER: runs[0], OnGap.NEWER: runs[-1]}[on_gap]
        aside += [_in_words(piece) for run in runs for piece in run if piece not in chosen]
    stopped = bool(gaps) and on_gap is OnGap.STOP
    changed = not stopped and tuple(chosen) != known.ledgers
    return TopicPlan(topic, known, tuple(chosen), tuple(gaps), tuple(aside), changed)


def _one_after_the_other(pieces: list[Piece]) -> list[Piece]:
    """In order, each cut where the next begins; empty ones are dropped."""
    # Of those that begin at the same offset, the newest epoch wins; of copies of the same
    # ledger, which an interrupted rebuild leaves behind, the longest.
    ordered = sorted(pieces, key=lambda piece: (piece.first_offset, _epoch(piece), _end(piece)))
    whole: list[Piece] = []
    limit: int | None = None
    for piece in reversed(ordered):
        cut = _cut(piece, limit)
        if cut is not None:
            whole.append(cut)
            limit = cut.first_offset
    return whole[::-1]


def _cut(piece: Piece, limit: int | None) -> Piece | None:
    """``piece`` up to ``limit``; None if nothing is left. Closed ledgers are not cut."""
    if isinstance(piece, LedgerRef):
        return piece if piece.records and (limit is None or _end(piece) <= limit) else None
    end = piece.end if limit is None else min(piece.end, limit)
    return replace(piece, end=end) if end > piece.first_offset else None


def _epoch(piece: Piece) -> int:
    # A ledger closed by the list or as an object is confirmed as it is.
    return piece.epoch if isinstance(piece, CopiedLedger) else 1 << 62


def _end(piece: Piece) -> int:
    if isinstance(piece, CopiedLedger):
        return piece.end
    assert piece.last_offset is not None
    return piece.last_offset + 1


def _as_ref(summary: ObjectSummary) -> LedgerRef:
    return LedgerRef(
        id=summary.ledger,
        first_offset=summary.first_offset,
        last_offset=summary.last_offset,
        state=LedgerState.CLOSED,
        bytes=summary.bytes,
        first_time_us=summary.first_time_us,
        last_time_us=summary.last_time_us,
        last_entry=-1,
        tiered=TieredRef(
            summary.size,
            summary.digest,
            local=False,
            generation=summary.generation,
            records=summary.records if summary.is_sparse else None,
        ),
    )


def _name(summary: ObjectSummary) -> ObjectName:
    topic, place = summary.topic, (summary.first_offset, summary.ledger)
    last = summary.last_offset if summary.generation else -1
    return ObjectName(topic.namespace, topic.local, 0, *place, summary.generation, last)


def _covers(summary: ObjectSummary, first_offset: int, end: int) -> bool:
    return summary.first_offset <= first_offset and end <= summary.last_offset + 1


def _with_object(ref: LedgerRef, summary: ObjectSummary, *, local: bool) -> LedgerRef:
    keep = ref.tiered.local if ref.tiered is not None else True
    return replace(ref, tiered=TieredRef(summary.size, summary.digest, local=keep and local))


def _in_words(piece: Piece) -> str:
    what = f"ledger {piece.ledger}" if isinstance(piece, CopiedLedger) else f"ledger {piece.id}"
    return f"{what} with offsets {piece.first_offset} to {_end(piece) - 1}"
