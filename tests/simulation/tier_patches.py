"""The cold tier without one of its safeguards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.tiering import Tiering
from storage_grpc.tier.objects import ObjectReader
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys.ledgers import LedgerRef, TieredRef
from sulina.metadata.store import Op

if TYPE_CHECKING:
    from tests.simulation.switches import Switches


def changes(switches: Switches) -> list[tuple[Any, str, Any]]:
    """What to patch: object, attribute, replacement."""
    found: list[tuple[Any, str, Any]] = []
    if not switches.verify_objects:
        found.append((ObjectReader, "verify", _trust))
    if not switches.swap_before_delete:
        found.append((Tiering, "_note", _delete_first))
    return found


async def _trust(objects: Any, head: ObjectHead) -> ObjectSummary:
    summary: ObjectSummary = (await objects._open(head)).footer.summary
    return summary


async def _delete_first(
    tiering: Tiering, log: ManagedLedger, ref: LedgerRef, tiered: TieredRef, also: Sequence[Op]
) -> bool:
    await log.ledgers.delete(ref.id)
    await log.commit(lambda before: before.changed(replace(ref, tiered=tiered)), also)
    return True
