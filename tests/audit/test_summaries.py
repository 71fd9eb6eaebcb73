"""A storm of equal events becomes few records, and none is forgotten."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.audit.summaries import OTHERS, Summaries
from sulina.audit import AuditEntry, AuditEvent, AuditOutcome

MINUTE = 60_000_000
REFUSAL = AuditEntry(
    time_us=0,
    event=AuditEvent.REFUSAL,
    outcome=AuditOutcome.REFUSED,
    principal="billing",
    address="127.0.0.1",
    door="binary",
    operation="produce",
    resource="/default/orders",
    allowed=False,
)


def test_the_first_is_written_at_once_and_the_others_as_a_count() -> None:
    summaries = Summaries()
    assert summaries.add(REFUSAL) == REFUSAL
    for second in range(1, 11):
        assert summaries.add(replace(REFUSAL, time_us=second, detail="text")) is None
    assert summaries.due(MINUTE - 1) == []
    [summary] = summaries.due(MINUTE)
    assert (summary.count, summary.time_us, summary.last_us) == (10, 1, 10)
    assert summaries.due(2 * MINUTE) == []


def test_different_events_are_written_each() -> None:
    summaries = Summaries()
    assert summaries.add(REFUSAL)
    assert summaries.add(replace(REFUSAL, resource="/default/others"))
    assert summaries.add(replace(REFUSAL, address="127.0.0.2"))


def test_an_event_after_a_quiet_interval_is_written_at_once_again() -> None:
    summaries = Summaries()
    summaries.add(REFUSAL)
    summaries.due(MINUTE)
    assert summaries.add(replace(REFUSAL, time_us=MINUTE)) is not None


def test_sign_ins_are_summarised_by_the_hour() -> None:
    summaries = Summaries()
    sign_in = replace(REFUSAL, event=AuditEvent.SIGN_IN)
    summaries.add(sign_in)
    summaries.add(sign_in)
    assert summaries.due(59 * MINUTE) == []
    assert [each.count for each in summaries.due(60 * MINUTE)] == [1]


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    summaries = Summaries()
    summaries.add(replace(REFUSAL, time_us=100 * MINUTE))
    summaries.add(replace(REFUSAL, time_us=100 * MINUTE))
    assert len(summaries.due(50 * MINUTE)) == 1


def test_too_many_different_events_share_one_row() -> None:
    summaries = Summaries(most=10)
    written = [
        entry
        for number in range(1000)
        if (entry := summaries.add(replace(REFUSAL, resource=str(number)))) is not None
    ]
    assert len(written) == 11 and written[-1].principal == OTHERS
    [summary] = summaries.due(MINUTE)
    assert summary.count == 989


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=100), st.integers(1, 4))
def test_every_event_is_written_or_counted_once(events: list[tuple[int, bool]], most: int) -> None:
    summaries, now, total = Summaries(most), 0, 0
    for number, later in events:
        entry = summaries.add(replace(REFUSAL, resource=str(number), time_us=now))
        total += 0 if entry is None else 1
        if later:
            now += MINUTE
            total += sum(each.count for each in summaries.due(now))
    total += sum(each.count for each in summaries.due(now, all_rows=True))
    assert total == len(events)
