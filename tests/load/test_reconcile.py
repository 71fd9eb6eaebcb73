"""Removal before assignment, always."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.load.reconcile import Step, reconcile
from tests.load.clusters import PATIENT

NAMES = st.sampled_from(["/d/1", "/d/2", "/d/3"])
BROKERS = st.sampled_from(["a", "b", "c"])


def test_a_topic_is_given_only_after_it_was_taken() -> None:
    first = reconcile({"/d/1": "b"}, {"/d/1": ["a"]})
    assert first.removals == (Step("/d/1", "a"),)
    assert first.assignments == ()
    assert first.waiting == (Step("/d/1", "b"),)
    assert reconcile({"/d/1": "b"}, {}).assignments == (Step("/d/1", "b"),)
    done = reconcile({"/d/1": "b"}, {"/d/1": ["b"]})
    assert (done.removals, done.assignments, done.waiting) == ((), (), ())


def test_a_topic_of_an_unreachable_broker_waits() -> None:
    steps = reconcile({"/d/1": "b"}, {"/d/1": ["a"]}, reachable={"b"})
    assert (steps.removals, steps.assignments) == ((), ())
    assert steps.waiting == (Step("/d/1", "b"),)


def test_an_unwanted_topic_is_removed() -> None:
    assert reconcile({}, {"/d/1": ["a"]}).removals == (Step("/d/1", "a"),)


@PATIENT
@given(st.dictionaries(NAMES, BROKERS), st.dictionaries(NAMES, st.sets(BROKERS)))
def test_any_order_of_steps_leads_there_and_never_to_two_owners_more(
    desired: dict[str, str], actual: dict[str, set[str]]
) -> None:
    at_first = {topic: len(holders) for topic, holders in actual.items()}
    for _ in range(3):
        steps = reconcile(desired, actual)
        for step in [*steps.assignments, *steps.removals]:  # the worst order: all at once
            if step in steps.removals:
                actual[step.topic].discard(step.broker)
            else:
                actual.setdefault(step.topic, set()).add(step.broker)
            assert len(actual[step.topic]) <= max(1, at_first.get(step.topic, 0))
    assert {topic: holders for topic, holders in actual.items() if holders} == {
        topic: {broker} for topic, broker in desired.items()
    }
