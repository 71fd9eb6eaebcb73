"""The cluster's services without one of their safeguards.

A broker's measurements of its machine are always replaced: they are constant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_containers.assembly import clustered_broker
from broker_containers.cluster.election import Election
from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.ownership import Ownership
from broker_containers.load.decision import Move
from sulina.errors import SulinaError
from sulina.metadata import prefix_cache
from sulina.metadata.keys import assignments, record
from sulina.metadata.lease import Lease
from sulina.metadata.store import Delete, Put
from sulina.names import TopicName
from sulina.runtime.resources import Resources

if TYPE_CHECKING:
    from tests.simulation.switches import Switches

Changes = list[tuple[Any, str, Any]]


class IdleMonitor:
    """Measurements of an idle machine."""

    def __init__(self, **_: object) -> None: ...

    def read(self, now: float) -> Resources:
        return Resources()


def changes(switches: Switches) -> Changes:
    """What to patch: object, attribute, replacement."""
    found: Changes = [(clustered_broker, "ResourceMonitor", IdleMonitor)]
    if not switches.lease_ends_locally:
        found.append((Lease, "alive", _not_known_to_be_lost))
    if not switches.claim_by_lease:
        found.append((Election, "_claim", _claim_anything))
    if not switches.cache_stays_ahead:
        found.append((prefix_cache._Known, "of", lambda known, key: 0))
    if not switches.cache_sees_all:
        found.append((prefix_cache.PrefixCache, "_list_again", _go_on_from_now))
    if not switches.removal_first:
        found.append((LeaderTasks, "_start", _give_at_once))
    if not switches.check_owner:
        found.append((Ownership, "check", lambda ownership, topic: None))
    if not switches.paths_with_owners:
        found.append((assignments, "change_all", _owner_then_path))
    return found


def _not_known_to_be_lost(lease: Any) -> bool:
    return bool(lease._end > float("-inf"))


async def _claim_anything(election: Any, term: int, lease: int) -> None:
    election._term, election._held_by = term, lease
    election._changed.set()
    election._changed = type(election._changed)()


async def _go_on_from_now(prefix_cache: Any, pause: float) -> float:
    """Watch from the newest revision on, without listing again."""
    while True:
        await prefix_cache._clock.sleep(pause)
        try:
            revision = (await prefix_cache._store.range(prefix_cache.prefix, limit=1)).revision
        except SulinaError:
            continue
        prefix_cache._told = revision + 1
        return pause


async def _give_at_once(leader_tasks: Any, moves: list[Move]) -> int:
    given = []
    for move in moves:
        topic = TopicName.parse(move.topic)
        owner = leader_tasks._tables.owner(topic)
        if owner is not None and owner.broker == move.source:
            revision = leader_tasks._tables.owners.revisions[assignments.path_of(topic)]
            given.append(leader_tasks._change(topic, owner, revision, move.target))
    await leader_tasks._commit(given, "at once")
    return len(given)


async def _owner_then_path(store: Any, guards: Any, given: list[assignments.Change]) -> int | None:
    done = None
    for change in given:
        marked = replace(change.after)
        done = await assignments.mark_move(store, guards, change.topic, change.revision, marked)
        if done is not None:
            entry = record.encode(assignments._Entry(marked.epoch))
            ops: list[Any] = [
                Put(assignments.broker_key(marked.broker, change.topic), entry),
                Delete(assignments.unassigned_key(change.topic)),
            ]
            if change.before is not None and change.before.broker != marked.broker:
                ops.append(Delete(assignments.broker_key(change.before.broker, change.topic)))
            await store.txn((), ops)
    return done
