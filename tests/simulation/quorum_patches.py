"""The ledger protocol with one of its safeguards missing: replacements for methods of the writer,
the recovery and what surrounds them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_containers.topic_log import takeover
from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.takeover import ScannedLedger, scan
from storage_grpc.entries import Entry
from storage_grpc.journal import reader
from storage_grpc.journal.format import IMAGE_SIZE
from storage_grpc.ledgers import Ledgers
from storage_grpc.node import FencedLedger, Node
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.recovery import Recovery
from storage_grpc.quorum.writer import QuorumWriter
from sulina.errors import NotFound, SulinaError
from sulina.metadata.keys import ledger_metadata, record
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, StoredMetadata
from sulina.metadata.keys.ledgers import LedgerRef

if TYPE_CHECKING:
    from tests.simulation.switches import Switches

_confirm_in_order = QuorumWriter._confirm
_swap = QuorumWriter._write


def changes(switches: Switches) -> list[tuple[Any, str, Any]]:
    """What to patch: object, attribute, replacement."""
    return [patch for name, patch in _PATCHES.items() if not getattr(switches, name)]


# ---- recovery ----


async def _fence_nothing(recovery: Recovery, _: Any, ensemble: tuple[str, ...]) -> Any:
    return {ensemble[0]: FencedLedger(-1, -1, certain=False)}


async def _read_unfenced(recovery: Recovery, node: Node, first: int, count: int) -> list[Entry]:
    return await node.read(recovery._ledger, first, max_entries=count, max_bytes=1 << 20)


async def _rewrite_nothing(recovery: Recovery, _: Any, target: Any, *__: object) -> Any:
    return target


async def _close_anyway(recovery: Recovery, stored: StoredMetadata, closed: Any) -> Any:
    await ledger_metadata.swap(recovery._store, recovery._ledger, stored.revision, closed)
    return closed


async def _just_read(ledgers: QuorumLedgers, ledger: int) -> int:
    """The last entry that can be read. Fences no node and leaves the ledger open."""
    stored = await ledger_metadata.get(ledgers._store, ledger)
    if stored.value.last_entry is not None:
        return stored.value.last_entry
    entry = 0
    try:
        while True:
            entry += len(await ledgers.read(ledger, entry, max_entries=64, max_bytes=1 << 20))
    except NotFound:
        return entry - 1


# ---- the writer ----


async def _join_before_commit(
    writer: QuorumWriter, ensemble: tuple[str, ...], swapped: dict[str, str]
) -> None:
    changed = tuple(swapped.get(member, member) for member in ensemble)
    writer._lives.update(writer._lives_of(changed))
    writer._join(swapped.values())
    await writer._write(writer.metadata.with_ensemble(writer.lac + 1, changed))


def _confirm_out_of_order(writer: QuorumWriter) -> None:
    _confirm_in_order(writer)
    for later in writer._pending:
        if writer._has_ack_quorum(later):
            later.done(None)


async def _overwrite(writer: QuorumWriter, value: LedgerMetadata) -> bool:
    current = await ledger_metadata.get(writer._store, writer.ledger)
    writer._stored = replace(writer._stored, revision=current.revision)
    return await _swap(writer, value)


async def _overwrite_end(writer: QuorumWriter) -> None:
    closed = writer.metadata.closed(writer.lac)
    await writer._store.put(ledger_metadata.key(writer.ledger), record.encode(closed))


async def _assume_written(writer: QuorumWriter, value: LedgerMetadata) -> StoredMetadata:
    return StoredMetadata(value, writer._stored.revision)


# ---- around them ----


def _trust(data: memoryview, offset: int, salt: int, ledger: int, place: Any) -> Any:
    start = offset + IMAGE_SIZE
    return -1, data[start : start + place.length]


async def _scan_without_dedup(
    ledgers: Ledgers, ref: LedgerRef, last_entry: int | None, dedup: Dedup
) -> ScannedLedger:
    return await scan(ledgers, ref, last_entry, Dedup())


def _same_epoch(before: Any, **changes: Any) -> Any:
    if "epoch" in changes:
        changes["epoch"] = min(changes["epoch"], 1)
    return replace(before, **changes)


_END_OF_ALL = property(
    lambda log: max(log.__dict__.get("end", 0), log._next),
    lambda log, end: log.__dict__.update(end=end),
)
_PATCHES: dict[str, tuple[Any, str, Any]] = {
    "fence_before_recovery": (Recovery, "_fence", _fence_nothing),
    "fence_on_recovery_read": (Recovery, "_read_fenced", _read_unfenced),
    "unknown_is_not_absent": (Recovery, "_denies", lambda _, got: isinstance(got, SulinaError)),
    "enough_denials": (Recovery, "_rules_out", lambda _, metadata, denied, unsure: denied >= 1),
    "rewrite_recovered": (Recovery, "_rewrite", _rewrite_nothing),
    "recover_from_last_fragment": (
        Recovery,
        "_unfinished_fragment",
        lambda _, metadata: metadata.fragments[0],
    ),
    "heed_closing_conflict": (Recovery, "_close", _close_anyway),
    "commit_before_confirm": (QuorumWriter, "_replace", _join_before_commit),
    "drop_failed_from_confirmed": (QuorumWriter, "_discard_acks", lambda writer, member: None),
    "confirm_in_order": (QuorumWriter, "_confirm", _confirm_out_of_order),
    "ack_quorum": (QuorumWriter, "_has_ack_quorum", lambda _, pending: bool(pending.acked)),
    "stop_when_fenced": (QuorumWriter, "_stop_fenced", lambda writer, error: None),
    "swap_on_change": (QuorumWriter, "_write", _overwrite),
    "close_by_swap": (QuorumWriter, "_write_end", _overwrite_end),
    "read_back_unknown": (QuorumWriter, "_read_back", _assume_written),
    "recover_on_takeover": (QuorumLedgers, "recover", _just_read),
    "check_crc": (reader, "_verify", _trust),
    "recover_dedup": (takeover, "scan", _scan_without_dedup),
    "raise_epoch": (takeover, "replace", _same_epoch),
    "show_only_confirmed": (ManagedLedger, "end", _END_OF_ALL),
}
