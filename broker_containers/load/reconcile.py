"""From what should be to steps: removals first, then assignments.

A topic is given to a broker only when no other has it. So while the leader and a broker can't talk
a topic may stand unassigned for a while, but never with two owners. The reconciliation loop calls
this again and again with what it sees; a step whose turn has not come is simply not in the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """Take ``topic`` from ``broker``, or give it to it."""

    topic: str
    broker: str


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do now, in this order, and what has to wait for it."""

    removals: tuple[Step, ...]
    assignments: tuple[Step, ...]
    waiting: tuple[Step, ...]
    """Assignments whose topic another broker still has."""


def reconcile(
    desired: Mapping[str, str],
    actual: Mapping[str, Collection[str]],
    *,
    reachable: Collection[str] | None = None,
) -> Steps:
    """Steps from ``actual`` (topic to the brokers that have it) to ``desired`` (topic to broker).

    Topics that are not desired are removed. Brokers outside ``reachable`` can't be told to give
    a topic up, so no removal is asked of them and the topic waits; leave a broker out of
    ``actual`` when its lease is gone and it is fenced. Once nothing differs, there are no steps.
    """
    removals = [
        Step(topic, broker)
        for topic, holders in actual.items()
        for broker in holders
        if desired.get(topic) != broker and (reachable is None or broker in reachable)
    ]
    assignments: list[Step] = []
    waiting: list[Step] = []
    for topic, broker in desired.items():
        holders = actual.get(topic, ())
        if broker in holders:
            continue
        free = not holders and (reachable is None or broker in reachable)
        (assignments if free else waiting).append(Step(topic, broker))
    return Steps(tuple(sorted(removals)), tuple(sorted(assignments)), tuple(sorted(waiting)))
