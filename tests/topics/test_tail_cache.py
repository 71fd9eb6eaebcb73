"""The tail cache holds the newest frames of all topics, and never more than its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.topic_log.tail_cache import CachedFrame, TailCache, TopicTail
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign, check_frame


def frame(base: int, count: int = 1, size: int = 100) -> CachedFrame:
    data = bytearray(encode_frame(Origin("p"), base, [b"x" * size] * count, 0))
    assign(data, base, 1)
    return CachedFrame(check_frame(data), data)


COST = frame(0).cost


def held(tail: TopicTail) -> list[int]:
    return [base for base in range(100) if tail.at(base) is not None]


def test_the_oldest_frame_of_all_topics_goes_first() -> None:
    cache = TailCache(4 * COST)
    a, b = cache.tail(), cache.tail()
    for tail, base in [(a, 0), (b, 0), (b, 1), (a, 1), (b, 2)]:
        tail.add(frame(base))
    assert (held(a), held(b)) == ([1], [0, 1, 2])
    a.add(frame(2))
    assert (held(a), held(b)) == ([1, 2], [1, 2])
    assert cache.bytes == 4 * COST


def test_one_frame_larger_than_the_bound_is_kept_alone() -> None:
    cache = TailCache(2 * COST)
    tail = cache.tail()
    tail.add(frame(0))
    large = frame(1, size=100_000)
    tail.add(large)
    assert held(tail) == [1] and cache.bytes == large.cost
    tail.add(frame(2))
    assert held(tail) == [2] and cache.bytes == COST


def test_a_topic_that_is_cleared_leaves_room_and_no_trace() -> None:
    cache = TailCache(3 * COST)
    gone, stays = cache.tail(), cache.tail()
    gone.add(frame(0))
    stays.add(frame(0))
    gone.clear()
    assert cache.bytes == COST and held(gone) == []
    # What was cleared must not count when room is made, nor push out what came in its place.
    gone.add(frame(0))
    stays.add(frame(1))
    stays.add(frame(2))
    assert (held(gone), held(stays)) == ([0], [1, 2])


def test_topics_that_come_and_go_leave_nothing_behind() -> None:
    cache = TailCache(1 << 30)
    for _ in range(100):
        tail = cache.tail()
        tail.add(frame(0))
        tail.clear()
    assert cache.bytes == 0
    assert len(cache._order) == 0


def test_a_frame_added_again_counts_once() -> None:
    cache = TailCache(10 * COST)
    tail = cache.tail()
    tail.add(frame(0))
    larger = frame(0, size=200)
    tail.add(larger)
    assert tail.at(0) is larger and cache.bytes == larger.cost
    tail.clear()
    assert cache.bytes == 0


def test_the_frame_that_holds_an_offset_is_found() -> None:
    tail = TailCache(1 << 20).tail()
    assert tail.holding(5) is None
    for base, count in [(10, 5), (15, 1), (16, 4)]:
        tail.add(frame(base, count))
    bases = [10] * 5 + [15] + [16] * 4
    for offset, base in zip(range(10, 20), bases, strict=True):
        found = tail.holding(offset)
        assert found is not None and found.base == base
    assert tail.holding(9) is tail.holding(20) is None
    assert tail.first == 10
    assert tail.at(12) is None


actions = st.tuples(st.integers(0, 2), st.integers(0, 8) | st.just("clear"))


@given(st.integers(1, 8), st.lists(actions, max_size=60))
def test_the_cache_is_a_bounded_queue_of_what_was_added(
    room: int, steps: list[tuple[int, int | str]]
) -> None:
    cache = TailCache(room * COST)
    tails = [cache.tail() for _ in range(3)]
    model: list[tuple[int, int]] = []
    offsets = [0, 0, 0]
    for topic, step in steps:
        if step == "clear":
            tails[topic].clear()
            model = [entry for entry in model if entry[0] != topic]
        else:
            tails[topic].add(frame(offsets[topic]))
            model.append((topic, offsets[topic]))
            offsets[topic] += 1
        model = model[-room:]
        for number, tail in enumerate(tails):
            mine = [base for owner, base in model if owner == number]
            assert held(tail) == mine
            assert tail.first == (mine[0] if mine else None)
        assert cache.bytes == len(model) * COST
