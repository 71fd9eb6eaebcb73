"""The timetable against a dictionary of the earliest times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.due_times import NEVER, DueTimes

steps = st.lists(
    st.tuples(st.sampled_from(["note", "drop", "take"]), st.integers(0, 5), st.integers(0, 30)),
    max_size=60,
)


@given(steps)
def test_frames_are_taken_when_their_earliest_time_has_come(
    todo: list[tuple[str, int, int]],
) -> None:
    timetable = DueTimes()
    model: dict[int, float] = {}
    for what, base, time in todo:
        match what:
            case "note":
                timetable.note(base, time)
                model[base] = min(model.get(base, NEVER), time)
            case "drop":
                timetable.drop(base)
                model.pop(base, None)
            case _:
                due = {base for base, due in model.items() if due <= time}
                taken = timetable.take(time)
                assert sorted(taken) == sorted(due)
                model = {base: due for base, due in model.items() if due > time}
        assert timetable.next_due == min(model.values(), default=NEVER)
        assert set(timetable) == set(model)


def test_what_is_dropped_does_not_pile_up() -> None:
    timetable = DueTimes()
    for number in range(20_000):
        timetable.note(number, 60.0 + number)
        timetable.drop(number)
    assert len(timetable._heap) < 3_000
    assert timetable.next_due == NEVER
