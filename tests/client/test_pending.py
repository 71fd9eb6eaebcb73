"""Drafts become frames with their delivery times; sent frames are acknowledged or resent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sulina
from sulina.client.batching import OpenBatch, fitting
from sulina.client.delays import due_time
from sulina.client.pending import Pending, PendingFrame
from sulina.client.tickets import FrameOutcome
from sulina.errors import (
    ProtocolError,
    Refused,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin
from tests.client.bench import Bench


class Pile:
    """Pending frames with what they reported."""

    def __init__(self, frames: int) -> None:
        self.freed = 0
        self.failed: list[FrameOutcome] = []
        self.pending = Pending(self._free, self.failed.append)
        self.outcomes = [FrameOutcome("/default/t") for _ in range(frames)]
        for number, outcome in enumerate(self.outcomes):
            self.pending.add(PendingFrame(b"%d" % number, 10, float(number), outcome))

    def _free(self, cost: int) -> None:
        self.freed += cost

    def send(self) -> list[tuple[int, bytes]]:
        return list(self.pending.to_send())


def error_of(outcome: FrameOutcome) -> SulinaError | None:
    assert outcome.settled
    return outcome.error


def test_acknowledged_frames_have_their_offsets_and_free_their_bytes() -> None:
    pile = Pile(3)
    assert pile.send() == [(0, b"0"), (1, b"1"), (2, b"2")]
    pile.pending.published(0, [100, 200])
    assert pile.outcomes[1].id_of(5).offset == 205
    assert not pile.outcomes[2].settled
    assert pile.freed == 20
    assert len(pile.pending) == 1


def test_each_frame_is_sent_once_over_a_handle() -> None:
    pile = Pile(2)
    assert len(pile.send()) == 2
    assert pile.send() == []


def test_a_refused_frame_concerns_no_other() -> None:
    pile = Pile(3)
    pile.send()
    pile.pending.refused(1, TooLarge("too large"))
    assert isinstance(error_of(pile.outcomes[1]), TooLarge)
    pile.pending.published(0, [0])
    pile.pending.published(2, [7])
    assert pile.outcomes[2].id_of(0).offset == 7
    assert pile.failed == [pile.outcomes[1]]
    assert pile.freed == 30
    assert len(pile.pending) == 0


def test_over_a_new_handle_all_that_is_open_is_sent_again_from_number_zero() -> None:
    pile = Pile(4)
    pile.send()
    pile.pending.published(0, [0])
    pile.pending.refused(2, TooLarge("x"))
    pile.pending.restart(resend_in_doubt=True)
    assert pile.send() == [(0, b"1"), (1, b"3")]


def test_frames_in_doubt_fail_where_a_repeat_would_be_worse() -> None:
    pile = Pile(3)
    next(pile.pending.to_send())
    pile.pending.restart(resend_in_doubt=False)
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert [data for _, data in pile.send()] == [b"1", b"2"]


def test_what_the_broker_said_it_did_not_take_is_not_in_doubt() -> None:
    pile = Pile(3)
    pile.send()
    pile.pending.interrupted(1)
    pile.pending.restart(resend_in_doubt=False)
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert [data for _, data in pile.send()] == [b"1", b"2"]


def test_a_frame_that_expires_tells_whether_it_may_be_stored() -> None:
    pile = Pile(3)
    waiting = pile.pending.to_send()
    next(waiting)
    assert not pile.pending.expire(0.0, StorageFull("full"))
    assert pile.pending.expire(1.5, StorageFull("full"))
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert isinstance(error_of(pile.outcomes[1]), StorageFull)
    assert not pile.outcomes[2].settled
    assert pile.freed == 20
    pile.pending.restart(resend_in_doubt=True)
    assert pile.send() == [(0, b"2")]


def test_failing_all_leaves_nothing() -> None:
    pile = Pile(2)
    pile.pending.fail_all(Unavailable("gone"))
    assert all(isinstance(error_of(outcome), Unavailable) for outcome in pile.outcomes)
    assert pile.freed == 20
    assert len(pile.pending) == 0


def test_answers_for_frames_that_were_not_sent_break_the_protocol() -> None:
    pile = Pile(2)
    next(pile.pending.to_send())
    with pytest.raises(ProtocolError):
        pile.pending.published(0, [0, 1])
    with pytest.raises(ProtocolError):
        pile.pending.refused(1, TooLarge("x"))
    with pytest.raises(ProtocolError):
        pile.pending.interrupted(5)


def test_a_repeat_has_an_id_without_a_place() -> None:
    pile = Pile(1)
    pile.send()
    pile.pending.published(0, [-1])
    assert pile.outcomes[0].id_of(3).offset == -1


NOON = 1_700_000_000_000_000
payloads = st.binary(max_size=20)
keys = st.one_of(st.none(), st.binary(max_size=4))
attributes = st.one_of(
    st.none(), st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
)
times = st.integers(NOON - 1000, NOON + 1000)
records = st.tuples(payloads, keys, attributes)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("one"), records, times),
        st.tuples(st.just("many"), st.lists(records, min_size=1, max_size=5), times),
    ),
    min_size=1,
    max_size=8,
)


@given(steps)
def test_a_frame_holds_what_was_added_in_order(steps: list[tuple[str, Any, int]]) -> None:
    open_batch = OpenBatch("/default/t", NOON)
    expected: list[tuple[bytes, bytes | None, dict[str, str], int]] = []
    for kind, what, time in steps:
        if kind == "one":
            payload, key, pairs = what
            assert open_batch.add(payload, key, pairs, time, 1) == len(expected)
            expected.append((payload, key, dict(pairs or {}), time))
        else:
            rows = list(what)
            last = open_batch.extend(
                [row[0] for row in rows],
                [row[1] for row in rows] if any(row[1] is not None for row in rows) else None,
                [row[2] for row in rows] if any(row[2] for row in rows) else None,
                time,
                len(rows),
            )
            expected += [(row[0], row[1], dict(row[2] or {}), time) for row in rows]
            assert last == len(expected) - 1
    frame = Frame(open_batch.encode(Origin("me"), 7, Compression.NONE))
    count = len(expected)
    assert open_batch.cost == frame.count == count
    assert frame.payloads == [row[0] for row in expected]
    assert (frame.keys or [None] * count) == [row[1] for row in expected]
    assert (frame.attributes or [{}] * count) == [row[2] for row in expected]
    assert frame.times == [row[3] for row in expected]
    assert frame.header.first_sequence == 7


def test_records_of_one_time_need_no_column_of_times() -> None:
    open_batch = OpenBatch("/default/t", NOON)
    open_batch.add(b"a", None, None, NOON, 1)
    open_batch.extend([b"b", b"c"], None, None, NOON, 2)
    assert open_batch.times is None
    assert open_batch.keys is None
    assert open_batch.attributes is None


def test_a_draft_takes_no_record_of_another_hour() -> None:
    open_batch = OpenBatch("/default/t", NOON)
    assert open_batch.takes(NOON + 60_000_000)
    assert not open_batch.takes(NOON + 3600_000_000)
    assert not open_batch.takes(NOON - 3600_000_000)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 100), st.integers(1, 10)
)
def test_a_list_is_cut_into_pieces_that_fit(costs: list[int], room: int, most: int) -> None:
    totals = list(accumulate(costs))
    start = 0
    while start < len(costs):
        end = fitting(totals, start, room, most)
        assert end - start <= most
        assert sum(costs[start:end]) <= room
        if end < len(costs) and end - start < most:
            assert sum(costs[start : end + 1]) > room
        start = max(end, start + 1)


TOPIC = "/default/t"
SECOND = 1_000_000


def frames_of(bench: Bench) -> list[tuple[list[bytes], int | None]]:
    opened = [Frame(data) for data in bench.broker.stored[TOPIC]]
    return [(frame.payloads, frame.due_us) for frame in opened]


# ---- what a time is ----


def test_a_moment_holds_to_the_microsecond_whatever_its_zone() -> None:
    moment = datetime.fromtimestamp(NOON / SECOND, UTC) + timedelta(hours=1, microseconds=7)
    east = moment.astimezone(timezone(timedelta(hours=9)))
    assert due_time(moment, None, NOON) == due_time(east, None, NOON) == NOON + 3600 * SECOND + 7
    assert due_time(NOON / SECOND + 5, None, NOON) == NOON + 5 * SECOND


@settings(deadline=None)
@given(st.floats(1e-6, 1e7), st.integers(NOON, 2 * NOON))
def test_a_delay_is_never_rounded_down_and_up_by_little(delay: float, now: int) -> None:
    due = due_time(None, delay, now)
    assert due is not None
    longer = due - now - round(delay * SECOND)
    assert 0 <= longer < max(min(delay / 100, 1), 0.001) * SECOND + 1
    assert due == due_time(None, timedelta(microseconds=round(delay * SECOND)), now)


def test_sends_that_follow_closely_have_the_same_time() -> None:
    times = {due_time(None, 60, NOON + step) for step in range(1, 500_000, 1000)}
    assert len(times) <= 2, "500 sends in half a second"


@pytest.mark.parametrize(
    ("deliver_at", "delay"),
    [(None, None), (None, 0), (None, timedelta()), (0, None), (NOON / SECOND, None), (-5.5, None)],
)
def test_what_is_not_later_than_now_is_no_delay(deliver_at: Any, delay: Any) -> None:
    assert due_time(deliver_at, delay, NOON) is None


@pytest.mark.parametrize(
    ("deliver_at", "delay", "says"),
    [
        (datetime(2030, 1, 1), None, "time zone"),  # noqa: DTZ001
        ("tomorrow", None, "datetime or seconds"),
        (True, None, "datetime or seconds"),
        (float("inf"), None, "datetime or seconds"),
        (1e300, None, "too far"),
        (None, -1, "negative"),
        (None, timedelta(seconds=-1), "negative"),
        (None, float("nan"), "timedelta or seconds"),
        (None, "5s", "timedelta or seconds"),
        (None, 1e300, "too far"),
        (1.0, 1.0, "not both"),
    ],
)
def test_what_is_no_time_is_refused_with_a_sentence(deliver_at: Any, delay: Any, says: str) -> None:
    with pytest.raises(Refused, match=says):
        due_time(deliver_at, delay, NOON)


# ---- which frames come of it ----


async def test_records_of_one_delivery_time_share_a_frame_and_others_start_another(
    bench: Bench, client: sulina.Client
) -> None:
    now = bench.clock.wall_us() / SECOND
    async with client.producer(TOPIC) as producer:
        await producer.send(b"1")
        await producer.send(b"2", deliver_at=now + 50)
        await producer.send(b"3", deliver_at=now + 50)
        await producer.send(b"4", deliver_at=now + 51)
        await producer.send_many([b"5", b"6"], deliver_at=now + 51)
        await producer.send_many([b"7", b"8"])
    due = [round((now + seconds) * SECOND) for seconds in (50, 51)]
    assert frames_of(bench) == [
        ([b"1"], None),
        ([b"2", b"3"], due[0]),
        ([b"4", b"5", b"6"], due[1]),
        ([b"7", b"8"], None),
    ]


async def test_a_frame_that_is_sent_again_keeps_its_time(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        ticket = await producer.send(b"1", delay=100)
        due = (bench.clock.wall_us() // SECOND + 100) * SECOND
        bench.broker.peer.stream.abort()
        await bench.eventually(_outcome(ticket))
    assert frames_of(bench) == [([b"1"], due)]


async def _outcome(ticket: sulina.Ticket) -> sulina.MessageId:
    return await ticket


@pytest.mark.parametrize("many", [False, True])
async def test_the_brokers_limit_is_kept_before_anything_is_sent(
    bench: Bench, client: sulina.Client, many: bool
) -> None:
    async with client.producer(TOPIC) as producer:
        sending = producer.send_many([b"1"], delay=1e5) if many else producer.send(b"1", delay=1e5)
        with pytest.raises(Refused, match="at most 1: choose an earlier one"):
            await sending
        await producer.send(b"2", delay=86_400)
    assert [payloads for payloads, _ in frames_of(bench)] == [[b"2"]]
