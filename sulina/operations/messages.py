"""Operations on messages: publish and read a few, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from sulina.model import Action, Start
from sulina.operations.declaration import (
    GET,
    POST,
    OperationGroup,
    Right,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import CLOSED, OMITTED, Count, TopicText
from sulina.operations.subscriptions import Position

MOST_MESSAGES: Final = 4096
"""The most that one call publishes."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to publish. All messages of a call have the same schema and expiry, or none."""

    payload: bytes
    key: bytes | None = None
    attributes: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    schema_id: Annotated[Count, OMITTED] = 0
    schema_version: Annotated[Count, OMITTED] = 0
    expires_ms: Annotated[
        int | None, Between(1), OMITTED, "No subscription delivers it once this time has passed."
    ] = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that was read; without a schema it has no schema_id."""

    offset: int
    time_us: Count
    producer: str
    sequence: Count
    attributes: Mapping[str, str]
    payload: bytes
    key: bytes | None = None
    schema_id: Annotated[Count, OMITTED] = 0
    schema_version: Annotated[Count, OMITTED] = 0


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """Where published messages are: the offset of the first, the others follow it."""

    topic: TopicText
    offset: int


@dataclass(frozen=True, slots=True)
class PeekedMessages:
    """Messages that were read without a subscription."""

    topic: TopicText
    messages: tuple[StoredMessage, ...]
    next_offset: Annotated[Count, "Where to continue."]
    at_end: bool


@dataclass(frozen=True, slots=True)
class FoundMessage(StoredMessage):
    """A message that was found; a long payload is cut."""

    size: Annotated[Count, "Bytes of the whole payload."] = 0
    decoded: Annotated[
        str | None, OMITTED, "The payload as JSON, by its Avro or Protobuf schema."
    ] = None
    undecoded: Annotated[str | None, OMITTED, "Why it can't be decoded."] = None


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """Some of the messages that match, and where to continue."""

    topic: TopicText
    messages: tuple[FoundMessage, ...]
    next_offset: Annotated[Count, "Where to continue: as start, or with newest_first as before."]
    at_end: Annotated[bool, "Whether everything was looked at."]
    scanned: Annotated[Count, "How many messages were looked at."]
    start_offset: Annotated[Count, "Of the oldest message that is stored."]
    end_offset: Annotated[Count, "Of the next message to be published."]


@dataclass(frozen=True, slots=True)
class ReplayedLetters:
    """Dead letters that were published again."""

    replayed: Count
    left_out: Annotated[Count, "Messages that do not name the topic they came from."]
    topics: Annotated[Mapping[str, Count], "How many were published to which topic."]
    next_offset: Annotated[Count, "Where to continue."]
    at_end: bool


class MessageOperations(OperationGroup, name="messages"):
    """Operations on the messages of a topic without partitions, or of one partition."""

    @operation(
        POST("/topics/{topic}/messages"),
        right=Right(Action.PRODUCE, "{topic}"),
        runs_on=RunsOn.TOPIC_OWNER,
        audited=False,
    )
    async def publish(
        self,
        topic: TopicText,
        messages: Annotated[Sequence[Annotated[NewMessage, CLOSED]], Between(1, MOST_MESSAGES)],
    ) -> PublishedAt:
        """Publish messages in one frame; answered when they are durable."""

    @operation(
        GET("/topics/{topic}/messages"),
        right=Right(Action.CONSUME, "{topic}"),
        runs_on=RunsOn.TOPIC_OWNER,
    )
    async def peek(
        self,
        topic: TopicText,
        *,
        start: Position = Start.earliest(),  # noqa: B008
        limit: Annotated[int, Between(1), "Read at most this many."] = 10,
    ) -> PeekedMessages:
        """Read messages without a subscription; nothing is acknowledged."""

    @operation(
        GET("/topics/{topic}/message-search"),
        right=Right(Action.CONSUME, "{topic}"),
        runs_on=RunsOn.TOPIC_OWNER,
    )
    async def search(
        self,
        topic: TopicText,
        *,
        key: Annotated[str, "Only messages with exactly this key."] = "",
        text: Annotated[str, "Only messages with this in payload, key or attributes."] = "",
        start: Annotated[Position, "Look at nothing before it."] = Start.earliest(),  # noqa: B008
        before: Annotated[int | None, Between(), "Look only at offsets below; null is all."] = None,
        newest_first: bool = False,
        limit: Annotated[int, Between(1, 1000), "Return at most this many."] = 50,
    ) -> FoundMessages:
        """Find messages by key or text, without a subscription; nothing is acknowledged.

        Each call looks at a bounded amount of data: call it again with the offset where to continue
        until everything was looked at.
        """

    @operation(
        POST("/topics/{topic}/replay"),
        # Besides this, the right to publish to each topic that a message came from.
        right=Right(Action.CONSUME, "{topic}"),
    )
    async def replay(
        self,
        topic: TopicText,
        *,
        start: Position = Start.earliest(),  # noqa: B008
        limit: Annotated[int, Between(1, 1000), "Replay at most this many."] = 100,
    ) -> ReplayedLetters:
        """Publish the messages of a dead-letter topic again, to the topics they came from.

        Payload, key and the original attributes are the same. They stay in the dead-letter topic:
        continue with the offset that is returned, or they are published once more.
        """
