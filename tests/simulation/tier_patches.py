"""The cold tier without one of its safeguards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_containers.topic_log import managed_ledger, takeover
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.takeover import FencedLog
from broker_containers.topics.replacing import Replacing, job_of, replacement_of
from broker_containers.topics.tiering import Tiering
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import Rewrite, head_of
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys.ledger_list import LedgerRef, Replacement, TieredRef
from sulina.metadata.store import Op, Put

if TYPE_CHECKING:
    from tests.simulation.switches import Switches


def changes(switches: Switches) -> list[tuple[Any, str, Any]]:
    """What to patch: object, attribute, replacement."""
    found: list[tuple[Any, str, Any]] = []
    if not switches.verify_objects:
        found.append((ObjectReader, "verify", _trust))
    if not switches.swap_before_delete:
        found.append((Tiering, "_note", _delete_first))
    if not switches.plan_replacements:
        found.append((Replacing, "_plan", _plan_later))
    if not switches.keep_replacement:
        found.append((managed_ledger, "fence_and_read", _forget_replacement))
    if not switches.note_replaced:
        found.append((Replacing, "_swap", _note_later))
    if not switches.swap_before_discard:
        found.append((Replacing, "_swap", _discard_first))
    return found


_PLAN = Replacing._plan


async def _plan_later(
    replacing: Replacing, log: ManagedLedger, ledgers: Sequence[LedgerRef], rewrite: Rewrite
) -> None:
    planned = replacement_of(ledgers, log._owned.list.generation + 1, rewrite)
    await replacing._write(job_of(log.topic, planned, ledgers, ()), 2.0)
    await _PLAN(replacing, log, ledgers, rewrite)


async def _forget_replacement(*arguments: Any) -> FencedLog:
    found = await takeover.fence_and_read(*arguments)
    return replace(found, list=replace(found.list, replacing=None))


async def _note_later(
    replacing: Replacing,
    log: ManagedLedger,
    under_way: Replacement,
    refs: Sequence[LedgerRef],
    new: LedgerRef,
    note: Put,
) -> None:
    await log.commit(lambda before: before.replaced(new))
    await replacing._clock.sleep(1.0)
    await log._store.put(note.key, note.value)


async def _discard_first(
    replacing: Replacing,
    log: ManagedLedger,
    under_way: Replacement,
    refs: Sequence[LedgerRef],
    new: LedgerRef,
    note: Put,
) -> None:
    assert log.tier is not None
    await log.tier.delete([head_of(log.topic, ref) for ref in refs])
    await log.commit(lambda before: before.replaced(new), [note])


async def _trust(objects: Any, head: ObjectHead) -> ObjectSummary:
    summary: ObjectSummary = (await objects._open(head)).footer.summary
    return summary


async def _delete_first(
    tiering: Tiering, log: ManagedLedger, ref: LedgerRef, tiered: TieredRef, also: Sequence[Op]
) -> bool:
    await log.ledgers.delete(ref.id)
    await log.commit(lambda before: before.changed(replace(ref, tiered=tiered)), also)
    return True
