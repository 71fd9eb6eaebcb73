"""Operations on subscriptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, Unpack

from sulina.errors import Refused
from sulina.model import Action, Backoff, FailurePolicy, Poison, Start, SubscriptionType
from sulina.operations.declaration import (
    DELETE,
    GET,
    PATCH,
    POST,
    SIGNED_IN,
    OperationGroup,
    Right,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between, JsonForm, Schema, WholeForm, shown
from sulina.operations.json_types import Count, Name, TopicText

_CONSUME = Right(Action.CONSUME, "{topic}", subscription="subscription")
_SEE = Right(None, "{topic}", subscription="subscription")
_MANAGE = Right(Action.TOPICS, "{topic}", subscription="subscription")
_OWNER = RunsOn.TOPIC_OWNER
_WHOLE = WholeForm(Between())


class StartForm(JsonForm):
    """A position: "earliest", "latest", an offset, {"offset": n} or {"time_us": n}."""

    def encode(self, value: Any) -> Any:
        if not isinstance(value, Start):
            return value
        match value.kind:
            case "offset":
                return {"offset": value.value}
            case "time":
                return {"time_us": value.value}
            case _:
                return value.kind

    def decode(self, value: Any, name: str) -> Any:
        match value:
            case "latest":
                return Start.latest()
            case "earliest":
                return Start.earliest()
            case {"offset": offset, **others} if not others:
                return Start.offset(_WHOLE.decode(offset, f"{name}.offset"))
            case {"time_us": time_us, **others} if not others:
                return Start.time(_WHOLE.decode(time_us, f"{name}.time_us"))
            case int() if not isinstance(value, bool):
                return Start.offset(_WHOLE.decode(value, name))
            case str() if value.isascii() and value.isdecimal():
                return Start.offset(_WHOLE.parse(value, name))
        raise Refused(f"{name} is latest, earliest, an offset or a time, not {shown(value)}")

    def parse(self, text: str, name: str) -> Any:
        """As in JSON; an object is written as such."""
        if text.startswith("{"):
            with suppress(ValueError):
                return self.decode(json.loads(text), name)
        return self.decode(text, name)

    def schema(self, named: dict[str, Schema]) -> Schema:
        named.setdefault(
            "Start",
            {
                "description": "earliest, latest, an offset, or a time in microseconds since 1970.",
                "oneOf": [
                    {"enum": ["latest", "earliest"]},
                    _WHOLE.schema(named),
                    _object("offset"),
                    _object("time_us"),
                ],
            },
        )
        return {"$ref": "#/components/schemas/Start"}


def _object(field: str) -> Schema:
    return {
        "type": "object",
        "properties": {field: _WHOLE.schema({})},
        "required": [field],
        "additionalProperties": False,
    }


Position = Annotated[Start, StartForm()]


class FailureChanges(TypedDict, total=False):
    """What to change of a failure policy."""

    max_redelivery_count: Annotated[Count, "After this many redeliveries a record is poison."]
    ack_timeout_ms: Annotated[Count, "Redeliver after this time; 0 never does."]
    base_redelivery_delay_ms: Annotated[Count, "The delay before the first redelivery."]
    max_redelivery_delay_ms: Annotated[Count, "The longest delay."]
    backoff: Backoff
    poison: Annotated[Poison, "What happens to a record that failed too often."]
    dead_letter_topic: str
    dead_letter_expired: Annotated[
        bool, "Whether records that expired before anybody took them go there too."
    ]


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription in a list."""

    topic: TopicText
    subscription: Name
    type: SubscriptionType
    position: Annotated[Count, "Everything before this offset is acknowledged."]
    backlog: Count
    delayed_frames: Count
    consumers: Count
    stalled: Annotated[str | None, "Why messages can't be delivered at present."]


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A connected consumer."""

    name: Name
    active: bool
    credit_records: int
    credit_bytes: int
    sent: Count
    in_flight: Annotated[Count, "Delivered and not acknowledged."] = 0
    address: Annotated[str, "Where it is connected from; empty if that is not known."] = ""


InAdvance = Annotated[
    bool, "Whether the subscription may be missing: it is then created with these values later."
]
MaxUnacked = Annotated[
    Count,
    "Messages that all consumers together may have unacknowledged; 0 sets no limit of its own.",
]


@dataclass(frozen=True, slots=True)
class SubscriptionDetails:
    """A subscription with its consumers and counters."""

    topic: TopicText
    subscription: Name
    type: SubscriptionType
    position: Annotated[Count, "Everything before this offset is acknowledged."]
    backlog: Count
    delayed_frames: Count
    stalled: Annotated[str | None, "Why messages can't be delivered at present."]
    failure_policy: FailurePolicy
    max_unacked: MaxUnacked
    acked_above: Annotated[
        tuple[tuple[int, ...], ...],
        "Ranges acknowledged beyond the position: first and last offset of each.",
    ]
    counters: Mapping[str, int]
    consumers: tuple[ConsumerRow, ...]


@dataclass(frozen=True, slots=True)
class DispatchLimit:
    """How much may be unacknowledged at once."""

    max_unacked: MaxUnacked


class SubscriptionOperations(OperationGroup, name="subscription"):
    """Operations on the subscriptions of a topic without partitions, or of one partition."""

    @operation(GET("/topics/{topic}/subscriptions"), right=Right(None, "{topic}"), runs_on=_OWNER)
    async def list(self, topic: TopicText) -> tuple[SubscriptionRow, ...]:
        """List the subscriptions of a topic that the caller may look up."""

    @operation(POST("/topics/{topic}/subscriptions", 201), right=_CONSUME, runs_on=_OWNER)
    async def create(
        self,
        topic: TopicText,
        subscription: Name,
        *,
        type: SubscriptionType = SubscriptionType.EXCLUSIVE,
        start: Position = Start.latest(),  # noqa: B008
    ) -> SubscriptionRow:
        """Create a subscription."""

    @operation(GET("/topics/{topic}/subscriptions/{subscription}"), right=_SEE, runs_on=_OWNER)
    async def describe(self, topic: TopicText, subscription: Name) -> SubscriptionDetails:
        """Show a subscription, its consumers and counters."""

    @operation(
        DELETE("/topics/{topic}/subscriptions/{subscription}"),
        right=Right(Action.CONSUME, "{topic}", Action.TOPICS, subscription="subscription"),
        runs_on=_OWNER,
    )
    async def delete(self, topic: TopicText, subscription: Name) -> None:
        """Delete a subscription and disconnect its consumers."""

    @operation(
        POST("/topics/{topic}/subscriptions/{subscription}/seek"), right=_CONSUME, runs_on=_OWNER
    )
    async def seek(self, topic: TopicText, subscription: Name, start: Position) -> SubscriptionRow:
        """Move a subscription that has no consumers to another position."""

    @operation(
        PATCH("/topics/{topic}/subscriptions/{subscription}/policy"),
        # Whoever sends messages to a dead-letter topic publishes there.
        right=(
            _MANAGE,
            Right(Action.PRODUCE, "{dead_letter_topic}", missing=SIGNED_IN),
        ),
        runs_on=_OWNER,
    )
    async def policy(
        self,
        topic: TopicText,
        subscription: Name,
        *,
        in_advance: InAdvance = False,
        **changes: Unpack[FailureChanges],
    ) -> FailurePolicy:
        """Show or change what happens to messages that are not acknowledged."""

    @operation(
        PATCH("/topics/{topic}/subscriptions/{subscription}/dispatch"),
        right=_MANAGE,
        read_right=_SEE,
        runs_on=_OWNER,
    )
    async def dispatch(
        self,
        topic: TopicText,
        subscription: Name,
        *,
        max_unacked: MaxUnacked | None = None,
        in_advance: InAdvance = False,
    ) -> DispatchLimit:
        """Show or change how many messages may be unacknowledged at once."""
