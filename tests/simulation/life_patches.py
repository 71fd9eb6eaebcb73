"""The life of records without one of its safeguards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from broker_containers import settable
from broker_containers.subscriptions import subscription
from broker_containers.subscriptions.expiry import Lifetime
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log import managed_ledger, takeover
from broker_containers.topic_log.cleanup import delete_objects, objects_to_delete
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.removal import LedgerRemoval
from broker_containers.topic_log.tail_cache import TopicTail
from broker_containers.topic_log.takeover import FencedLog
from broker_containers.topics import erasing, retention, retention_plan, tiering
from broker_containers.topics.compacting import Compacting
from broker_containers.topics.erasure_work import ErasureWork
from broker_containers.topics.replacing import Replacing
from broker_containers.topics.retention import Retention
from broker_containers.topics.tiering import Tiering
from storage_grpc.tier.tier import Rewrite, place_of
from sulina.lake.key_compaction import KeyCompaction
from sulina.metadata.keys import unreferenced_objects
from sulina.metadata.keys.ledger_list import CompactionState, LedgerList, LedgerRef, Removal
from sulina.metadata.keys.policy import Policy

if TYPE_CHECKING:
    from tests.simulation.switches import Switches

Patch = tuple[Any, str, Any]
_drop_local = Tiering.drop_local
_ended = Compacting._ended
_end_of_closed = erasing._end_of_closed
_kept_us = Retention.kept_us
_replaced = LedgerList.replaced
_rewrite = ErasureWork._rewrite
_trim = LedgerRemoval.trim


def changes(switches: Switches) -> list[Patch]:
    """What to patch: object, attribute, replacement."""
    return [patch for name in PATCHES if not getattr(switches, name) for patch in PATCHES[name]]


def _never(*_: object) -> int:
    return 0


def _restored(before: LedgerList) -> LedgerList:
    return replace(before, removed=())


def _counted(list_: LedgerList, refs: Sequence[LedgerRef]) -> int:
    return max(min(len(refs), len(list_.visible) - 1), 0)


def _all_tiered(refs: Sequence[LedgerRef], *_: object) -> list[LedgerRef]:
    return [ref for ref in refs if ref.tiered is not None and ref.tiered.local]


def _all_tombstones(
    compacting: Compacting, list_: LedgerList, refs: Sequence[LedgerRef], _: object
) -> CompactionState:
    end = (refs[-1].last_offset or 0) + 1
    return CompactionState(until=end, tombstones_before_us=1 << 62, settled=end)


def _by_publish_time(
    compacting: Compacting, list_: LedgerList, refs: Sequence[LedgerRef], policy: Policy
) -> CompactionState:
    end = (refs[-1].last_offset or 0) + 1
    old_us = compacting._clock.wall_us() - policy.tombstone_retention_ms * 1000
    return CompactionState(until=end, tombstones_before_us=old_us, settled=end)


def _every_second(compaction: KeyCompaction, rows: Any) -> Any:
    return np.arange(len(rows)) % 2 == 0


async def _keep_entries(tiering_: Tiering, *parts: Any, at_once: bool = False) -> None:
    if not at_once:
        await _drop_local(tiering_, *parts)


def _no_end(*_: object) -> None:
    return None


def _as_soon_as_published(life: Lifetime, ttl_ms: int, wall_us: int) -> bool:
    return bool(ttl_ms) and life.since_us <= wall_us


def _first_is_old(ref: LedgerRef, policy: Policy, now_us: int) -> bool:
    return bool(policy.retention_ms and now_us - ref.first_time_us > policy.retention_ms * 1000)


async def _remove_all(
    retention_: Retention, log: ManagedLedger, refs: Sequence[LedgerRef], count: int
) -> int:
    """As long as the newest of them says."""
    return await log.removal.trim(refs[:count], _kept_us(retention_, [refs[count - 1]]))


def _own_time(before: LedgerList, count: int, now_us: int, until_us: int) -> LedgerList:
    return replace(before, removed=(*before.removed, Removal(count, now_us, until_us)))


async def _delete_counted(removal_: LedgerRemoval, counted: Callable[[LedgerList], int]) -> int:
    """Delete what was decided, whatever happened until its turn, which is late."""
    list_ = removal_._owned.list
    gone = list_.ledgers[: min(counted(list_), len(list_.ledgers) - 1)]
    objects = objects_to_delete(removal_._tier, removal_._topic, gone)
    places = [place_of(head) for head in objects]
    now_us = removal_._clock.wall_us()
    doom = unreferenced_objects.puts(removal_._topic, places, now_us, 0)
    await removal_._clock.sleep(1.0)
    await removal_._owned.commit(lambda before: before.trimmed(len(gone)), doom)
    for ref in gone:
        await removal_._ledgers.delete(ref.id)
    await delete_objects(removal_._tier, objects)
    return len(gone)


async def _trim_late(removal_: LedgerRemoval, *parts: Any, **more: Any) -> int:
    await removal_._clock.sleep(1.0)
    return await _trim(removal_, *parts, **more)


def _from_anywhere(
    compacting_: Compacting, list_: LedgerList, state: CompactionState
) -> CompactionState:
    return replace(_ended(compacting_, list_, state), settled_start=0)


async def _settled_or_not(
    replacing: Replacing, log: ManagedLedger, ledgers: Sequence[LedgerRef], *parts: Any, **more: Any
) -> LedgerRef:
    limits = log.compaction.until, log.compaction.tombstones_before_us
    await replacing._plan(log, ledgers, Rewrite.COMPACT, limits)
    return await replacing.resume(log, *parts, **more)


def _count_all(list_: LedgerList, ref: LedgerRef) -> LedgerList:
    """Whatever replaces objects, the round counts them as compacted."""
    under_way = list_.replacing and replace(list_.replacing, until=1)
    return _replaced(replace(list_, replacing=under_way), ref)


async def _write_back(
    tiering_: Tiering,
    log: ManagedLedger,
    policy: Policy | None = None,
    consumed: int = 0,
    *,
    at_once: bool = False,
) -> None:
    """Two tasks may delete the same entries, and both write the ledger as they have read it."""
    settings = tiering_.settings
    if at_once:
        settings = replace(settings, local_seconds=-settable.YEAR, local_bytes=0)
    now_us = tiering_._clock.wall_us()
    for ref in tiering.droppable(log.refs, settings, now_us, policy, consumed):
        assert ref.tiered is not None
        without = replace(ref, tiered=replace(ref.tiered, local=False))
        await log.ledgers.delete(ref.id)
        await log.commit(lambda before, ref=without: before.changed(ref))  # type: ignore[misc]


async def _forget_requests(*arguments: Any) -> FencedLog:
    found = await takeover.fence_and_read(*arguments)
    return replace(found, list=replace(found.list, erasures=()))


def _without_newest(log: ManagedLedger) -> int:
    return min(_end_of_closed(log), max((ref.first_offset for ref in log.refs), default=0))


async def _searched(work: ErasureWork, *parts: Any) -> bool:
    await _rewrite(work, *parts)
    return True


PATCHES: dict[str, list[Patch]] = {
    "check_expiry": [(subscription, "expired_records", _never), (Lifetime, "end", _no_end)],
    "wait_for_expiry": [(Lifetime, "over", _as_soon_as_published)],
    "old_enough": [
        (retention_plan, "too_old", lambda ref, policy, now_us: bool(policy.retention_ms))
    ],
    "whole_ledger_is_old": [(retention_plan, "too_old", _first_is_old)],
    "consumed_by_all": [(retention, "consumed_below", lambda topic: topic.log.end)],
    "larger_than_allowed": [
        (
            retention_plan,
            "_reason",
            lambda ref, policy, *_: retention_plan.Reason.SIZE if policy.retention_bytes else None,
        )
    ],
    "keep_for_grace": [(LedgerList, "overdue", lambda list_, now_us: list_.hidden)],
    "remove_with_grace": [(Retention, "kept_us", _never)],
    "wait_for_kept": [(Retention, "_remove", _remove_all), (LedgerList, "removing", _own_time)],
    "delete_as_decided": [(LedgerRemoval, "_delete", _delete_counted)],
    "decide_again": [(LedgerList, "leading", _counted), (LedgerRemoval, "trim", _trim_late)],
    "keep_entries": [(tiering, "droppable", _all_tiered)],
    "drop_only_entries": [(Tiering, "drop_local", _write_back)],
    "keep_tombstones": [(Compacting, "_begun", _all_tombstones)],
    "settle_tombstones": [(Compacting, "_begun", _by_publish_time)],
    "settle_restored": [(Compacting, "_ended", _from_anywhere)],
    "settled_only": [(Replacing, "compact_objects", _settled_or_not)],
    "count_compacted": [(LedgerList, "replaced", _count_all)],
    "newest_stays": [(KeyCompaction, "kept", _every_second)],
    "erase_entries": [(Tiering, "drop_local", _keep_entries)],
    "forget_erased": [(TopicTail, "drop_below", _never), (Subscription, "load_again", _never)],
    "erase_again": [(LedgerList, "restored", _restored)],
    "erase_to_the_end": [(erasing, "_end_of_closed", _without_newest)],
    "keep_requests": [(managed_ledger, "fence_and_read", _forget_requests)],
    "search_replaced": [(ErasureWork, "_rewrite", _searched)],
}
