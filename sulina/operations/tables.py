"""Operations on topics as Iceberg tables, for brokers that know the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sulina.model import Action
from sulina.operations.declaration import GET, POST, SIGNED_IN, OperationGroup, Right, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name, TopicText
from sulina.operations.topics import MANAGE_TOPIC, SEE_TOPIC

_READ = Right(Action.CONSUME, "{topic}")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A topic's table in a list."""

    topic: TopicText
    table: Name
    records: Count
    objects: Count
    bytes: Count
    rejected: Annotated[Count, "Records whose payload does not fit the schema."]
    lacking_columns: Annotated[
        Count,
        "Records in objects from before the newest typed columns, which are null for them until "
        "`ledger.rewrite` rewrites these objects.",
    ]
    snapshots: Count
    newest_us: Annotated[Count, "When the newest record in it was published; 0 if it has none."]
    committed_us: Annotated[Count, "When it was last changed; 0 if never."]
    behind_seconds: Annotated[
        float | None,
        "Age of the oldest record in a closed ledger that the table lacks; 0 if it has all of "
        "them, null if the topic no longer exists.",
    ]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, or a field of a struct: value.amount."""

    name: Name
    type: Name
    field_id: Count


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A state that the table had, and that engines can query."""

    id: Count
    committed_us: Count
    operation: str
    records: Count
    objects: Count
    added_records: Count
    deleted_records: Count


@dataclass(frozen=True, slots=True)
class TablePartition:
    """What the table has of a partition of the topic."""

    partition: Count
    first_offset: Count
    next_offset: Annotated[Count, "The first offset that the table lacks."]


@dataclass(frozen=True, slots=True)
class TableDetails(TableRow):
    """A topic's table."""

    metadata: Annotated[str, "Where its metadata is, for engines that open a table by it."]
    partitions: tuple[TablePartition, ...]
    columns: tuple[TableColumn, ...]
    history: Annotated[tuple[TableSnapshot, ...], "The newest snapshots, newest first."]


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A row of a table; a long payload is cut."""

    partition: Count
    offset: Count
    time_us: Count
    payload: bytes
    key: bytes | None
    value: Annotated[str | None, "The typed columns as JSON."]
    value_error: Annotated[str | None, "Why the payload does not fit the schema."]


@dataclass(frozen=True, slots=True)
class RejectedRecords:
    """Records whose payload does not fit the schema."""

    topic: TopicText
    count: Annotated[Count, "How many the table has."]
    records: Annotated[tuple[TableRecord, ...], "The first of them."]


@dataclass(frozen=True, slots=True)
class TableCommits:
    """What bringing a table up to date did."""

    topic: TopicText
    commits: Count
    objects: Annotated[Count, "How many were added."]
    records: Annotated[Count, "How many were added."]
    exchanged: Annotated[Count, "Objects that left it because others replaced them."]
    gaps: Annotated[Count, "Objects that must arrive before later ones are added."]
    complete: Annotated[bool, "false if the time ran out: call it again."]


class TableOperations(OperationGroup, name="table"):
    """Operations on topics as Iceberg tables."""

    @operation(GET("/tables"), right=SIGNED_IN)
    async def list(self) -> tuple[TableRow, ...]:
        """List the tables of the topics that the caller may look up."""

    @operation(GET("/topics/{topic}/table"), right=SEE_TOPIC)
    async def show(
        self,
        topic: TopicText,
        *,
        snapshots: Annotated[int, Between(1, 1000), "Show at most this many."] = 20,
    ) -> TableDetails:
        """Show a topic's table: its columns, its partitions and its newest snapshots."""

    @operation(GET("/topics/{topic}/table/sample"), right=_READ)
    async def sample(
        self,
        topic: TopicText,
        *,
        limit: Annotated[int, Between(1, 1000), "Read at most this many."] = 10,
    ) -> tuple[TableRecord, ...]:
        """Read the newest rows of a topic's table."""

    @operation(GET("/topics/{topic}/table/rejected"), right=_READ)
    async def rejected(
        self,
        topic: TopicText,
        *,
        limit: Annotated[int, Between(1, 1000), "Read at most this many."] = 20,
    ) -> RejectedRecords:
        """Count the records whose payload does not fit the schema, and read the first of them."""

    @operation(POST("/topics/{topic}/table/backfill"), right=MANAGE_TOPIC)
    async def backfill(self, topic: TopicText) -> TableCommits:
        """Bring a topic's table up to date with its objects; create it if there is none."""
