"""Delivery times: what an application may say, and which frames come of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sulina
from sulina.client.delays import due_time
from sulina.errors import Refused
from sulina.wire.decode import Frame
from tests.client.bench import Bench

TOPIC = "/default/t"
NOON = 1_750_000_000_000_000
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
