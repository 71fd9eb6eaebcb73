"""A producer is told the outcome of each frame, in the order in which it sent them."""

from __future__ import annotations

import asyncio

from broker_containers.topics.producers import REPEATED, PublishOutcome, TopicProducer
from sulina.errors import Refused, Retriable, SulinaError

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
