"""Finds the messages of a topic for which a condition holds, and those that it can't judge.

The condition is an SQL expression that DuckDB evaluates in this process, over the columns that
``sulina sql`` has: brokers get offsets, never the condition or a value in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sulina.errors import Refused
from sulina.lake.schema import OFFSET, PAYLOAD, VALUE
from sulina.metadata.keys.erasures import MOST_RANGES
from sulina.names import TopicName
from sulina.operations.ledgers import OffsetRange
from sulina.sql.names import quoted
from sulina.sql.skipping import PARTITION

if TYPE_CHECKING:
    from sulina.sql.session import SqlSession

MOST_FOUND: Final = 200_000
"""Ranges of offsets; more are for the Spark job."""
_FOUND, _UNJUDGED = "found", "unjudged"


@dataclass(slots=True)
class Found:
    """What a search found, by partition, in the order of offsets."""

    ranges: dict[int, list[OffsetRange]] = field(default_factory=dict)
    messages: int = 0
    unjudged: int = 0
    """Messages whose payload does not fit the schema, and for which the condition is not true."""

    def add(self, partition: int, offset: int) -> None:
        """Add a message; those of a partition come in order."""
        self.messages += 1
        known = self.ranges.setdefault(partition, [])
        if known and known[-1].last == offset - 1:
            known[-1] = OffsetRange(known[-1].first, offset)
            return
        known.append(OffsetRange(offset, offset))
        if sum(map(len, self.ranges.values())) > MOST_FOUND:
            raise Refused(
                f"the condition holds in more than {MOST_FOUND:,} places: erase them with the "
                "Spark job (python -m emr_jobs.jobs.erase), or narrow the condition"
            )

    def requests(self) -> Iterator[tuple[int, tuple[OffsetRange, ...]]]:
        """What to ask for: partitions, each with as many ranges as a request may have."""
        for partition, ranges in sorted(self.ranges.items()):
            for start in range(0, len(ranges), MOST_RANGES):
                yield partition, tuple(ranges[start : start + MOST_RANGES])


def search(session: SqlSession, topic: TopicName, where: str, *, unjudged_too: bool) -> Found:
    """Read a whole topic; with ``unjudged_too``, what can't be judged is found as well.

    Blocks. Raises ``Refused`` with the reason for a condition that is none.
    """
    table = quoted([str(topic)])
    schema = next(iter(session.run(f"SELECT * FROM {table} LIMIT 0"))).schema
    typed, unjudged = [], "false"
    if VALUE in schema.names:
        names = [each.name for each in schema.field(VALUE).type]
        typed = [
            f"{VALUE}.{quoted([name])} AS {quoted([name])}"
            for name in names
            if name not in schema.names
        ]
        # An empty payload has nothing to judge: a tombstone, or erased before.
        unjudged = f"{VALUE} IS NULL AND octet_length({PAYLOAD}) > 0"
    rows = f"SELECT {', '.join(['*', *typed])} FROM {table}"
    _check(session, where, rows)
    query = (
        f'SELECT {PARTITION}, "{OFFSET}", {_FOUND}, {_UNJUDGED} FROM ('
        f'SELECT {PARTITION}, "{OFFSET}", coalesce((\n{where}\n), false) AS {_FOUND}, '
        f"{unjudged} AS {_UNJUDGED} FROM ({rows})) WHERE {_FOUND} OR {_UNJUDGED}"
        f' ORDER BY {PARTITION}, "{OFFSET}"'
    )
    found = Found()
    for batch in session.run(query):
        _add(found, batch, unjudged_too)
    return found


def _check(session: SqlSession, where: str, rows: str) -> None:
    """Raises ``Refused`` unless ``where`` is a condition, in one sentence: DuckDB's reason has
    lines of a query that nobody wrote, and DuckDB takes numbers for conditions."""
    query = f'SELECT {PARTITION}, "{OFFSET}", (\n{where}\n) AS {_FOUND} FROM ({rows}) LIMIT 0'
    try:
        *others, found = next(iter(session.run(query))).schema
    except Refused as error:
        names = next(iter(session.run(f"{rows} LIMIT 0"))).schema.names
        reason = str(error).partition("\n")[0].partition(" Error: ")
        raise Refused(
            f"--where is no condition: {(reason[2] or reason[0]).rstrip('!.')}; it can use the "
            f"columns {', '.join(names)}"
        ) from None
    if len(others) != len((PARTITION, OFFSET)):
        raise Refused("--where is no condition: it is several, so join them with AND or OR")
    if not pa.types.is_boolean(found.type):
        raise Refused(
            f"--where is no condition: it is of type {found.type}, not true or false; compare it "
            "with something, as in customer = 'Ann'"
        )


def _add(found: Found, batch: pa.RecordBatch, unjudged_too: bool) -> None:
    columns = (batch.column(name).to_pylist() for name in (PARTITION, OFFSET, _FOUND, _UNJUDGED))
    for partition, offset, holds, unjudged in zip(*columns, strict=True):
        if unjudged and not holds:
            found.unjudged += 1
        if holds or unjudged_too:
            found.add(partition, offset)
