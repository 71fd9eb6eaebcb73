"""Handlers of the operations on topics as tables: what the catalog says, and what it lacks."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from broker_containers.broker.broker import Broker
from broker_containers.metrics.tables import TableWatch, behind_seconds
from broker_containers.operations.running import handles
from broker_containers.operations.topics import parts_of
from broker_containers.security.access import ACTING
from sulina.errors import NotFound, Retriable
from sulina.metadata.keys import ledgers
from sulina.names import TopicName
from sulina.operations.tables import (
    RejectedRecords,
    TableColumn,
    TableCommits,
    TableDetails,
    TableOperations,
    TablePartition,
    TableRecord,
    TableRow,
    TableSnapshot,
)

if TYPE_CHECKING:
    from sulina.tables.showing import SampleRow, TableState
    from sulina.tables.tables import Rejected

_SHOWN_BYTES: Final = 16 << 10
"""Of a payload; longer ones are cut."""
_COMMIT_SECONDS: Final = 15.0
"""No further commit begins after that."""
_OBJECTS: Final = 200
"""Of one commit, which takes seconds."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TableHandlers:
    """Tables; any broker with a catalog answers."""

    def __init__(self, broker: Broker, watch: TableWatch) -> None:
        self._broker = broker
        self._watch = watch

    @handles(TableOperations.list)
    async def list(self) -> tuple[TableRow, ...]:
        found = await self._watch.call(lambda tables: tables.list())
        sees = ACTING.get().sees
        return tuple([await self._row(state) for state in found if sees(state.topic)])

    @handles(TableOperations.show)
    async def show(self, topic: str, *, snapshots: int = 20) -> TableDetails:
        name = TopicName.parse(topic)
        found = await self._watch.call(lambda tables: tables.details(name, snapshots))
        return TableDetails(
            **_fields(await self._row(found.state)),
            metadata=found.state.metadata,
            partitions=tuple(
                TablePartition(part, each.first, each.next)
                for part, each in sorted(found.state.partitions.items())
            ),
            columns=tuple(TableColumn(**_fields(each)) for each in found.columns),
            history=tuple(TableSnapshot(**_fields(each)) for each in found.history),
        )

    @handles(TableOperations.sample)
    async def sample(self, topic: str, *, limit: int = 10) -> tuple[TableRecord, ...]:
        name = TopicName.parse(topic)
        found = await self._watch.call(lambda tables: tables.sample(name, limit))
        return tuple(_record(row, row.key, row.value) for row in found)

    @handles(TableOperations.rejected)
    async def rejected(self, topic: str, *, limit: int = 20) -> RejectedRecords:
        name = TopicName.parse(topic)
        count, rows = await self._watch.call(lambda tables: tables.rejected(name, limit))
        return RejectedRecords(str(name), count, tuple(_record(row) for row in rows))

    @handles(TableOperations.backfill)
    async def backfill(self, topic: str) -> TableCommits:
        name = TopicName.parse(topic)
        clock = self._broker.clock
        end = clock.now() + _COMMIT_SECONDS
        done = await self._watch.call(
            lambda tables: tables.backfill(name, _OBJECTS, lambda: clock.now() < end)
        )
        return TableCommits(
            topic=str(name),
            commits=done.commits,
            objects=done.objects,
            records=done.records,
            exchanged=done.exchanged,
            gaps=len(done.gaps),
            complete=done.complete,
        )

    async def _row(self, state: TableState) -> TableRow:
        return TableRow(
            topic=state.topic,
            table=state.table,
            records=state.records,
            objects=state.objects,
            bytes=state.bytes,
            rejected=state.rejected,
            lacking_columns=state.lacking_columns,
            snapshots=state.snapshots,
            newest_us=state.newest_us,
            committed_us=state.committed_us,
            behind_seconds=await self._behind(state),
        )

    async def _behind(self, state: TableState) -> float | None:
        """By the metadata, which every broker can read; the open ledger is not counted."""
        name = TopicName.parse(state.topic)
        try:
            record = await self._broker.describe(name, create=False, delivery=None)
        except (NotFound, Retriable):
            return None
        now_us, most = self._broker.clock.wall_us(), 0.0
        for number, part in enumerate(parts_of(name, record)):
            refs = (await ledgers.get(self._broker.store, part)).list.visible
            extent = state.partitions.get(number)
            most = max(most, behind_seconds(refs, extent.next if extent else 0, now_us))
        return most


def _fields(found: Any) -> dict[str, Any]:
    return {each.name: getattr(found, each.name) for each in fields(found)}


def _record(
    row: SampleRow | Rejected, key: bytes | None = None, value: str | None = None
) -> TableRecord:
    return TableRecord(
        partition=row.partition,
        offset=row.offset,
        time_us=(row.publish_time - _EPOCH) // timedelta(microseconds=1),
        payload=(row.payload or b"")[:_SHOWN_BYTES],
        key=key,
        value=value,
        value_error=row.value_error,
    )
