"""Acknowledgements are few and small, and say exactly what was acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.client.acks import Acks
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.header import MAX_RECORDS

steps = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.integers(0, 200_000), st.just(0)),
        st.tuples(st.just("near"), st.integers(0, 300), st.just(0)),
        st.tuples(st.just("whole"), st.integers(0, 200_000), st.integers(1, 100)),
        st.tuples(st.just("part"), st.integers(0, 200_000), st.integers(1, 1 << 70)),
    ),
    max_size=40,
)


def offsets_of(acks: list[pb.Ack]) -> set[int]:
    offsets: set[int] = set()
    for ack in acks:
        assert not ack.cumulative
        for part in ack.selections:
            named = set(range(part.first, part.last + 1))
            if part.mask:
                assert len(part.mask) <= MAX_RECORDS // 8
                mask = selection.from_bytes(part.mask)
                named &= {part.first + index for index in selection.indices(mask)}
            offsets |= named
    return offsets


@given(steps)
def test_what_is_sent_is_what_was_acknowledged(steps: list[tuple[str, int, int]]) -> None:
    acks, expected = Acks(), set[int]()
    for kind, at, more in steps:
        match kind:
            case "one" | "near":
                acks.one(at)
                expected.add(at)
            case "whole":
                acks.whole(at, at + more - 1)
                expected |= set(range(at, at + more))
            case _:
                acks.part(at, more)
                expected |= {at + index for index in selection.indices(more)}
    assert bool(acks) == bool(expected)
    assert offsets_of(acks.take()) == expected
    assert not acks
    assert acks.take() == []


def test_batches_that_follow_on_each_other_become_one_range() -> None:
    acks = Acks()
    for start in range(0, 100_000, 1000):
        acks.whole(start, start + 999)
    (ack,) = acks.take()
    assert [(part.first, part.last) for part in ack.selections] == [(0, 99_999)]


def test_single_records_in_order_become_one_range() -> None:
    acks = Acks()
    for offset in range(5, 500):
        acks.one(offset)
    (ack,) = acks.take()
    assert [(part.first, part.last) for part in ack.selections] == [(5, 499)]


def test_scattered_records_share_a_mask() -> None:
    acks = Acks()
    for offset in range(1000, 3000, 2):
        acks.one(offset)
    (ack,) = acks.take()
    (part,) = ack.selections
    assert (part.first, part.last) == (1000, 2998)
    assert len(part.mask) == 250


def test_a_position_is_sent_before_what_lies_beyond_it() -> None:
    acks = Acks()
    acks.one(20)
    acks.up_to(5)
    acks.up_to(7)
    position, single = acks.take()
    assert position.cumulative
    assert position.selections[0].last == 7
    assert single.selections[0].first == 20


def test_a_lower_position_after_a_higher_one_is_sent_too_since_it_came_later() -> None:
    acks = Acks()
    for last in (100, 5, 6, 90, 3):
        acks.up_to(last)
    assert [ack.selections[0].last for ack in acks.take() if ack.cumulative] == [100, 90, 3]
    assert not acks


def test_a_command_has_a_bounded_number_of_selections() -> None:
    acks = Acks()
    for number in range(2000):
        acks.part(number * 70_000, 0b101)
    commands = acks.take()
    assert len(commands) > 1
    assert all(len(command.selections) <= 512 for command in commands)
