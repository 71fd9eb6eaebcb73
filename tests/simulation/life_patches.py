"""The life of records without one of its safeguards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from broker_containers.subscriptions import subscription
from broker_containers.subscriptions.frame_loader import FrameLoader
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.tail_cache import TopicTail
from broker_containers.topics import retention, retention_plan, tiering
from broker_containers.topics.compacting import Compacting
from broker_containers.topics.retention import Retention
from broker_containers.topics.tiering import Tiering
from sulina.lake.key_compaction import KeyCompaction
from sulina.metadata.keys.ledger_list import CompactionState, LedgerList, LedgerRef
from sulina.metadata.keys.policy import Policy

if TYPE_CHECKING:
    from tests.simulation.switches import Switches

Patch = tuple[Any, str, Any]
_drop_local = Tiering.drop_local


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


PATCHES: dict[str, list[Patch]] = {
    "check_expiry": [(subscription, "expired_records", _never), (FrameLoader, "_expired", _never)],
    "old_enough": [
        (retention_plan, "too_old", lambda ref, policy, now_us: bool(policy.retention_ms))
    ],
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
    "decide_again": [(LedgerList, "leading", _counted)],
    "keep_entries": [(tiering, "droppable", _all_tiered)],
    "keep_tombstones": [(Compacting, "_begun", _all_tombstones)],
    "settle_tombstones": [(Compacting, "_begun", _by_publish_time)],
    "newest_stays": [(KeyCompaction, "kept", _every_second)],
    "erase_entries": [(Tiering, "drop_local", _keep_entries)],
    "forget_erased": [(TopicTail, "drop_below", _never), (Subscription, "load_again", _never)],
    "erase_again": [(LedgerList, "restored", _restored)],
}
