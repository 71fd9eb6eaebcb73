"""Runs SQL on topics with DuckDB, in this process and in bounded memory.

Only topics that a query names are looked up; each is read as it is at that moment, however often
the query scans it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from sulina.errors import NotFound, Refused
from sulina.lake.typed.reading import ValueReader
from sulina.live.connection import BlockingConnection
from sulina.live.schemas import versions_of
from sulina.live.snapshot import snapshot
from sulina.names import TopicName
from sulina.sql.dataset import TopicDataset, TopicSource
from sulina.tables.objects import Lake

try:
    import duckdb
except ImportError:
    raise Refused("SQL needs DuckDB: pip install 'sulina[sql]'") from None

from sulina.sql.names import DEFAULT, parts_of, quoted, readable, topic_of

MEMORY: Final = "1GB"
_ROWS: Final = 10_000
"""In a batch of a result."""


class SqlSession:
    """Queries over one connection. Calls block; use it in ``with``, from one thread at a time."""

    def __init__(
        self, connection: BlockingConnection, lake: Lake | None = None, memory: str = MEMORY
    ) -> None:
        """Without a lake, everything is read from the brokers. ``memory`` limits DuckDB's own."""
        self._connection = connection
        self._lake = lake
        self._memory = memory
        self._spilled = tempfile.TemporaryDirectory(prefix="sulina-sql-")
        self._duckdb = duckdb.connect()
        self.topics: dict[TopicName, TopicDataset] = {}
        """What queries have named so far."""
        self._missing: NotFound | None = None

    def __enter__(self) -> Self:
        """Raises ``NotFound`` if the lake does not exist."""
        if self._lake is not None:
            self._lake.check()
        run = self._duckdb.execute
        with _errors():
            run("SET memory_limit = ?", [self._memory])
            run("SET temp_directory = ?", [self._spilled.name])
            run("SET TimeZone = 'UTC'")
            run("SET python_enable_replacements = false")  # variables are not tables
            run(f"CREATE SCHEMA {quoted([DEFAULT])}")
            run(f"SET search_path = '{quoted([DEFAULT])},main'")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._duckdb.close()
        self._spilled.cleanup()

    def run(self, query: str) -> Iterator[pa.RecordBatch]:
        """The rows of ``query``, as they are computed; the first batch has columns and no rows.

        Raises ``NotFound`` for a topic that does not exist, ``Refused`` with DuckDB's reason for a
        query that it refuses, ``Unavailable`` if brokers or the lake cannot be reached.
        """
        with self._failures():
            query = readable(query)
            for name in sorted(self._duckdb.get_table_names(query, qualified=True)):
                self._define(parts_of(name))
            result: Any = self._duckdb.sql(query)
            if result is None:  # a statement without rows, such as COPY
                return
            reader = result.to_arrow_reader(_ROWS)
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader

    def _define(self, parts: tuple[str, ...]) -> None:
        """Make a table of a topic. If there is none, the name may still be a table of DuckDB's."""
        topic = topic_of(parts)
        if topic is None:
            return
        try:
            if topic not in self.topics:
                self.topics[topic] = TopicDataset(self._source(topic))
                self._duckdb.register(_registered(topic), self.topics[topic])
        except NotFound as error:
            self._missing = error
            return
        if len(parts) > 1:
            self._duckdb.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(parts[:1])}")
        place = quoted(parts if len(parts) > 1 or parts[0].startswith("/") else (DEFAULT, *parts))
        table = quoted([_registered(topic)])
        self._duckdb.execute(f"CREATE VIEW IF NOT EXISTS {place} AS SELECT * FROM {table}")

    def _source(self, topic: TopicName) -> TopicSource:
        run, client = self._connection.run, self._connection.client
        versions = run(versions_of(client, topic))
        pieces = run(snapshot(client, topic, lake=self._lake is not None))
        values = ValueReader(versions) if versions else None
        if values is not None and values.table is None:
            values = None
        return TopicSource(pieces, values, self._connection, self._lake)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What made DuckDB fail, where it was ours."""
        self._missing = None
        try:
            with _errors():
                yield
        except Refused:
            for topic in self.topics.values():
                if topic.failure is not None:
                    raise topic.failure from None
            if self._missing is not None:
                raise self._missing from None
            raise


def _registered(topic: TopicName) -> str:
    return f"topic {topic}"


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        raise Refused(str(error).strip()) from None
