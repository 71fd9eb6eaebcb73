"""Frames that are sent again are recognised, and outcomes come in the order of sending."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.topic_log.dedup import Dedup, Verdict
from broker_containers.topics.producers import REPEATED, PublishOutcome, TopicProducer
from sulina.errors import CorruptFrame, Refused, Retriable, SulinaError
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import FrameHeader, check_frame


def frame(producer: str, first: int, count: int = 1) -> FrameHeader:
    """The header of a real frame."""
    return check_frame(encode_frame(Origin(producer), first, [b""] * count, 0))


def store(dedup: Dedup, *headers: FrameHeader) -> None:
    for header in headers:
        assert dedup.judge(header) is Verdict.NEW
        dedup.sending(header)
    for header in headers:
        dedup.stored(header)


def test_frames_in_sequence_are_new() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10), frame("p", 10, 5), frame("p", 15))
    assert dedup.last_sequence(frame("p", 0).producer_id) == 15


def test_a_gap_in_the_sequence_is_allowed() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10), frame("p", 100, 5))
    assert dedup.judge(frame("p", 105)) is Verdict.NEW


def test_a_repeat_of_what_is_durable_is_stored() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10), frame("p", 10, 5))
    assert dedup.judge(frame("p", 10, 5)) is Verdict.STORED
    assert dedup.judge(frame("p", 0, 10)) is Verdict.STORED
    assert dedup.judge(frame("p", 3, 2)) is Verdict.STORED


def test_a_repeat_of_what_is_being_written_is_under_way() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10))
    dedup.sending(frame("p", 10, 5))
    dedup.sending(frame("p", 15, 5))
    assert dedup.judge(frame("p", 10, 5)) is Verdict.UNDER_WAY
    assert dedup.judge(frame("p", 15, 5)) is Verdict.UNDER_WAY
    assert dedup.judge(frame("p", 0, 10)) is Verdict.STORED
    dedup.stored(frame("p", 10, 5))
    assert dedup.judge(frame("p", 10, 5)) is Verdict.STORED
    assert dedup.judge(frame("p", 15, 5)) is Verdict.UNDER_WAY
    assert dedup.last_sequence(frame("p", 0).producer_id) == 19


def test_a_frame_cut_differently_than_before_overlaps() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10))
    assert dedup.judge(frame("p", 5, 10)) is Verdict.OVERLAPS
    assert dedup.judge(frame("p", 0, 11)) is Verdict.OVERLAPS
    dedup.sending(frame("p", 10, 5))
    assert dedup.judge(frame("p", 12, 10)) is Verdict.OVERLAPS


def test_what_failed_to_be_written_is_new_again() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10))
    dedup.sending(frame("p", 10, 5))
    dedup.nothing_under_way()
    assert dedup.judge(frame("p", 10, 5)) is Verdict.NEW
    assert dedup.last_sequence(frame("p", 0).producer_id) == 9


def test_producers_do_not_disturb_each_other() -> None:
    dedup = Dedup()
    store(dedup, frame("p", 0, 10))
    assert dedup.judge(frame("q", 0, 10)) is Verdict.NEW
    assert dedup.last_sequence(frame("q", 0).producer_id) == -1


def test_the_producers_silent_for_longest_are_forgotten_first() -> None:
    dedup = Dedup(limit=3)
    store(dedup, frame("a", 0), frame("b", 0), frame("c", 0), frame("a", 1), frame("d", 0))
    assert dedup.judge(frame("b", 0)) is Verdict.NEW
    for name in "acd":
        assert dedup.judge(frame(name, 0)) is Verdict.STORED


def test_a_producer_with_a_frame_under_way_is_never_forgotten() -> None:
    dedup = Dedup(limit=2)
    store(dedup, frame("a", 0))
    dedup.sending(frame("a", 1))
    store(dedup, frame("b", 0), frame("c", 0), frame("d", 0))
    assert dedup.judge(frame("a", 1)) is Verdict.UNDER_WAY
    dedup.stored(frame("a", 1))
    assert dedup.judge(frame("a", 1)) is Verdict.STORED


names = st.sampled_from("abcde")


@given(st.lists(st.tuples(names, st.integers(1, 5)), max_size=30), st.integers(1, 5))
def test_a_snapshot_restores_what_was_stored_and_in_which_order_to_forget(
    published: list[tuple[str, int]], limit: int
) -> None:
    dedup = Dedup(limit)
    for name, count in published:
        store(dedup, frame(name, dedup.last_sequence(frame(name, 0).producer_id) + 1, count))
    restored = Dedup(limit)
    restored.sending(frame("x", 7))
    restored.restore(dedup.snapshot())
    assert restored.last_sequence(frame("x", 0).producer_id) == -1
    for name, extra in zip("fghij", range(5), strict=True):
        for name_of_old in "abcde":
            header = frame(name_of_old, 0)
            assert restored.judge(header) is dedup.judge(header)
        for each in (dedup, restored):
            store(each, frame(name, extra))


def test_a_snapshot_is_bounded_by_the_limit_of_who_restores_it() -> None:
    large = Dedup()
    store(large, *(frame(str(number), 0) for number in range(50)))
    small = Dedup(limit=10)
    small.restore(large.snapshot())
    assert len(small.snapshot()) == 10 * 16
    assert small.judge(frame("49", 0)) is Verdict.STORED
    assert small.judge(frame("0", 0)) is Verdict.NEW


@pytest.mark.parametrize("snapshot", [b"x", bytes(15), bytes(17)])
def test_a_snapshot_that_is_none_is_corrupt(snapshot: bytes) -> None:
    with pytest.raises(CorruptFrame):
        Dedup().restore(snapshot)


def test_the_highest_sequence_there_is_fits_a_snapshot() -> None:
    dedup = Dedup()
    store(dedup, frame("p", (1 << 63) - 10, 10))
    restored = Dedup()
    restored.restore(dedup.snapshot())
    assert restored.judge(frame("p", (1 << 63) - 10, 10)) is Verdict.STORED


Outcome = int | SulinaError


class Told:
    """The producer's end: keeps what it was told."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, int | type[SulinaError]]] = []
        self.lumps: list[int] = []

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        self.lumps.append(len(base_offsets))
        self.outcomes += enumerate(base_offsets, first_number)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        self.outcomes.append((number, type(error)))

    def closed(self, reason: SulinaError) -> None: ...


def started(count: int) -> tuple[Told, TopicProducer, list[PublishOutcome]]:
    told = Told()
    producer = TopicProducer("p", told)
    return told, producer, [producer.start(number) for number in range(1, count + 1)]


async def a_turn() -> None:
    """Let the loop go round once."""
    await asyncio.sleep(0)


async def test_outcomes_of_one_turn_are_told_together() -> None:
    told, producer, slots = started(3)
    for slot, offset in zip(slots, (10, 20, 30), strict=True):
        producer.finish(slot, offset)
    assert told.outcomes == []
    await a_turn()
    assert told.outcomes == [(1, 10), (2, 20), (3, 30)]
    assert told.lumps == [3]


async def test_an_outcome_waits_for_those_before_it() -> None:
    told, producer, slots = started(3)
    producer.finish(slots[2], 30)
    await a_turn()
    assert told.outcomes == []
    producer.finish(slots[0], 10)
    await a_turn()
    assert told.outcomes == [(1, 10)]
    producer.finish(slots[1], REPEATED)
    await a_turn()
    assert told.outcomes == [(1, 10), (2, REPEATED), (3, 30)]


async def test_a_refused_frame_does_not_stop_those_after_it() -> None:
    told, producer, slots = started(3)
    outcomes: list[Outcome] = [10, Refused("too large"), 30]
    for slot, outcome in zip(slots, outcomes, strict=True):
        producer.finish(slot, outcome)
    await a_turn()
    assert told.outcomes == [(1, 10), (2, Refused), (3, 30)]
    assert producer.broken is None


async def test_after_a_frame_that_may_be_sent_again_none_is_told_as_stored() -> None:
    told, producer, slots = started(4)
    outcomes: list[Outcome] = [10, Retriable("the disk is full"), 30, Refused("too large")]
    for slot, outcome in zip(slots, outcomes, strict=True):
        producer.finish(slot, outcome)
    await a_turn()
    assert told.outcomes == [(1, 10), (2, Retriable), (3, Retriable), (4, Refused)]
    assert isinstance(producer.broken, Retriable)
    producer.finish(producer.start(5), 50)
    await a_turn()
    assert told.outcomes[4:] == [(5, Retriable)]


async def test_offset_zero_is_an_outcome_like_any_other() -> None:
    told, producer, slots = started(1)
    producer.finish(slots[0], 0)
    await a_turn()
    assert told.outcomes == [(1, 0)]
