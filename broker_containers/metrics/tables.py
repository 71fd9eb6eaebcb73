"""The tables of a broker's topics, as the catalog has them: for metrics, and for who looks at them.

Only a broker with a catalog has any. The catalog is asked in threads, at most two at a time and
each with a deadline, so a slow one delays nothing else. Once a minute the tables of the topics that
are open here are read; each topic is open on one broker, so a cluster reads each table once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from broker_containers.broker.broker import Broker
from broker_containers.topic_log.managed_ledger import ManagedLedger
from sulina.errors import NotFound, Refused, SulinaError, Unavailable
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metrics.exposition import Exposition
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.tasks import stop_tasks
from sulina.runtime.threads import ThreadRunner

if TYPE_CHECKING:
    from sulina.tables.showing import TableState
    from sulina.tables.tables import Tables

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_ROUND_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 25.0
"""Less than an HTTP request may take."""
_THREADS: Final = 2


def behind_seconds(refs: Iterable[LedgerRef], next_offset: int, now_us: int) -> float:
    """The age of the oldest record in a closed ledger from ``next_offset`` on; 0 without any."""
    for ref in refs:
        if ref.last_offset is not None and ref.records and ref.last_offset >= next_offset:
            return max(0.0, (now_us - ref.first_time_us) / 1e6)
    return 0.0


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table as the last round found it."""

    state: TableState
    behind_seconds: float


class TableWatch:
    """The tables of one broker's topics. Use as ``async with``: it reads them meanwhile."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = broker.settings.tables
        self._run_blocking = ThreadRunner(_THREADS)
        self._tables: Tables | None = None
        self._task: asyncio.Task[None] | None = None
        self.seen: dict[str, SeenTable] = {}
        """By topic."""
        self.failures = 0
        """Rounds that the catalog did not answer."""

    async def __aenter__(self) -> TableWatch:
        if self._settings.catalog:
            self._task = asyncio.create_task(self._run(), name="tables")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            await stop_tasks(self._task)

    async def call(self, work: Callable[[Tables], _T]) -> _T:
        """The result of a blocking call. Raises its errors, ``Unavailable`` if it takes too long,
        and ``Refused`` on a broker without a catalog."""
        if not (self._settings.catalog and self._settings.lake):
            raise Refused(
                "this broker knows no catalog of tables: start it with --catalog and --lake, or "
                "use `sulina table`, which asks the catalog itself"
            )
        try:
            return await within(
                self._broker.clock, _CALL_SECONDS, self._run_blocking(lambda: work(self._open()))
            )
        except TimeoutError:
            raise Unavailable(
                f"the catalog of tables did not answer within {_CALL_SECONDS:g} s: try again"
            ) from None

    def _open(self) -> Tables:
        """In a thread. Two may open it at the same time, which does no harm."""
        if self._tables is None:
            from sulina.tables.catalogs import open_catalog  # tells if pyiceberg is missing
            from sulina.tables.objects import Lake, LakePlace
            from sulina.tables.tables import Tables

            place = LakePlace.parse(self._settings.lake)
            catalog = open_catalog(self._settings.catalog, place)
            self._tables = Tables(Lake(place), catalog, self._settings.database)
        return self._tables

    async def _run(self) -> None:
        while True:
            try:
                await self.round()
            except SulinaError as error:
                self.failures += 1
                _log.warning("the tables of topics could not be read; will retry: %s", error)
            await self._broker.clock.sleep(_ROUND_SECONDS)

    async def round(self) -> None:
        """Read the tables of open topics, as many as have metrics of their own."""
        most = self._broker.settings.http.metrics_topics
        found: dict[str, SeenTable] = {}
        for topic, logs in list(self._opened().items())[:most]:
            state = await self.call(partial(_state, topic))
            if state is not None:
                found[str(topic)] = SeenTable(state, self._behind(state, logs))
        self.seen = found

    def _opened(self) -> dict[TopicName, list[tuple[int, ManagedLedger]]]:
        """The logs that are open here, with their partitions, by topic."""
        opened: dict[TopicName, list[tuple[int, ManagedLedger]]] = {}
        for topic in self._broker.loaded():
            if isinstance(topic.log, ManagedLedger):
                base, partition = topic.name.partition_of or (topic.name, 0)
                opened.setdefault(base, []).append((partition, topic.log))
        return opened

    def _behind(self, state: TableState, logs: Sequence[tuple[int, ManagedLedger]]) -> float:
        now_us = self._broker.clock.wall_us()
        has = {part: extent.next for part, extent in state.partitions.items()}
        return max(behind_seconds(log.refs, has.get(part, 0), now_us) for part, log in logs)

    def write_metrics(self, text: Exposition) -> None:
        """Writes nothing for a broker without a catalog."""
        if not self._settings.catalog:
            return
        shown = [({"topic": name}, seen) for name, seen in self.seen.items() if text.sees(name)]
        now_us = self._broker.clock.wall_us()
        families: tuple[tuple[str, str, Callable[[SeenTable], float]], ...] = (
            ("behind_seconds", "Age of the oldest record in a closed ledger that the topic's table "
             "lacks; 0 if it has all.", lambda seen: seen.behind_seconds),
            ("newest_age_seconds", "Time since the newest record in the topic's table was "
             "published.", lambda seen: max(0.0, (now_us - seen.state.newest_us) / 1e6)),
            ("records", "Records in the topic's table.", lambda seen: seen.state.records),
            ("rejected_records", "Records in the topic's table whose payload does not fit its "
             "schema.", lambda seen: seen.state.rejected),
            ("lacking_records", "Records in the topic's table whose objects are from before its "
             "newest columns, which are null for them.",
             lambda seen: seen.state.lacking_columns),
            ("objects", "Objects in the topic's table.", lambda seen: seen.state.objects),
            ("snapshots", "Snapshots of the topic's table.", lambda seen: seen.state.snapshots),
        )  # fmt: skip
        for name, help_, value in families:
            samples = [(labels, value(seen)) for labels, seen in shown]
            text.gauge(f"sulina_table_{name}", help_, samples)
        text.counter(
            "sulina_table_commits_total",
            "Commits to the topic's table.",
            [(labels, seen.state.commits) for labels, seen in shown],
        )
        text.counter(
            "sulina_table_conflicts_total",
            "Attempts to commit to the topic's table that failed because it had changed, or whose "
            "answer was lost, of those that succeeded later.",
            [(labels, seen.state.conflicts) for labels, seen in shown],
        )
        text.counter(
            "sulina_table_read_failures_total",
            "How often the catalog of tables could not be read.",
            self.failures,
        )


def _state(topic: TopicName, tables: Tables) -> TableState | None:
    try:
        return tables.describe(topic)
    except NotFound:
        return None
