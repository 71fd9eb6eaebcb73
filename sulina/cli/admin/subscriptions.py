"""``sulina subscription``: create, list, describe, seek and delete subscriptions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from sulina.cli.admin.topics import SUBSCRIPTION_COLUMNS
from sulina.cli.command import CliGroup
from sulina.cli.options import option, options
from sulina.cli.output import (
    columns,
    confirm,
    print_fields,
    print_table,
    say,
    show_rows,
    shown_as_json,
)
from sulina.cli.params import (
    FROM,
    NUMBER,
    START_METAVAR,
    TYPE,
    MemberOf,
    position,
    topic_name,
    yes_option,
)
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.model import Backoff, Poison, Start, SubscriptionType
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.subscriptions import FailureChanges, SubscriptionOperations

_T = TypeVar("_T")


@click.group(cls=CliGroup)
def subscription() -> None:
    """Create, list, describe, seek and delete subscriptions.

    On a partitioned topic these commands apply to the subscription of every partition; --json
    prints a list with one object per partition.
    """


def _ask_each(
    settings: CliSettings,
    topic: str,
    call: Callable[[SubscriptionOperations, str], Awaitable[_T]],
) -> list[_T]:
    """Run an operation on the topic, or on each of its partitions in order."""

    async def work() -> list[_T]:
        async with connected(settings) as client:
            parts = (await client.topic(topic)).parts
            return [await call(client.admin.subscriptions, part) for part, _ in parts]

    return run(work())


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """The options of a new subscription."""

    type: SubscriptionType = option(
        SubscriptionType.EXCLUSIVE, "How consumers share the messages.", **TYPE
    )
    start: Start = option(Start.latest(), "Where it starts.", default="latest", **FROM)


@subscription.command(
    "create",
    examples=[
        "sulina subscription create /default/orders billing",
        "sulina subscription create /default/orders audit --from earliest --type shared",
    ],
)
@click.argument("topic", type=topic_name)
@click.argument("name")
@options(NewSubscription)
def create(settings: CliSettings, topic: str, name: str, options: NewSubscription) -> None:
    """Create a subscription before its first consumer connects."""
    made = _ask_each(
        settings,
        topic,
        lambda admin, part: admin.create(part, name, type=options.type, start=options.start),
    )
    say(settings, f"created subscription {name} of {topic}", made)


@subscription.command("list", examples=["sulina subscription list /default/orders"])
@click.argument("topic", type=topic_name)
def list_(settings: CliSettings, topic: str) -> None:
    """List the subscriptions of a topic."""
    found = _ask_each(settings, topic, lambda admin, part: admin.list(part))
    show_rows(
        settings,
        [row for part in found for row in part],
        SUBSCRIPTION_COLUMNS,
        nothing=f"{topic} has no subscriptions",
    )


@subscription.command("describe", examples=["sulina subscription describe /default/orders billing"])
@click.argument("topic", type=topic_name)
@click.argument("name")
def describe(settings: CliSettings, topic: str, name: str) -> None:
    """Show a subscription's position, backlog, consumers, counters and failure policy."""
    found = _ask_each(settings, topic, lambda admin, part: admin.describe(part, name))
    if shown_as_json(settings, found):
        return
    for each in found:
        fields = {
            **plain(each),
            "max_unacked": each.max_unacked or "no limit",
            "acked_above": [f"{first}-{last}" for first, last in each.acked_above],
        }
        consumers = fields.pop("consumers")
        print_fields(fields)
        if consumers:
            print_table(consumers, columns(*consumers[0]))


@subscription.command("delete", examples=["sulina subscription delete /default/orders billing"])
@click.argument("topic", type=topic_name)
@click.argument("name")
@yes_option
def delete(settings: CliSettings, topic: str, name: str, yes: bool) -> None:
    """Delete a subscription and its position. Asks for confirmation on a terminal."""
    confirm(settings, f"delete subscription {name} of {topic} and its position?", yes=yes)
    _ask_each(settings, topic, lambda admin, part: admin.delete(part, name))
    say(
        settings,
        f"deleted subscription {name} of {topic}",
        {"topic": topic, "subscription": name},
    )


@subscription.command(
    "seek",
    examples=[
        "sulina subscription seek /default/orders billing --to earliest",
        "sulina subscription seek /default/orders billing --to 2026-05-01T12:30:00Z",
    ],
)
@click.argument("topic", type=topic_name)
@click.argument("name")
@click.option(
    "--to", "start", type=position, metavar=START_METAVAR, required=True, help="The new position."
)
def seek(settings: CliSettings, topic: str, name: str, start: Start) -> None:
    """Set the position of a subscription that has no connected consumers."""
    moved = _ask_each(settings, topic, lambda admin, part: admin.seek(part, name, start))
    positions = ", ".join(str(each.position) for each in moved)
    say(settings, f"subscription {name} of {topic} is now at {positions}", moved)


_in_advance = click.option(
    "--in-advance",
    is_flag=True,
    help="Also if the subscription does not exist yet: it is created with these values.",
)


@subscription.command(
    "policy",
    examples=[
        "sulina subscription policy /default/orders billing",
        "sulina subscription policy /default/orders billing --ack-timeout-ms 60000",
        "sulina subscription policy /default/orders billing "
        "--poison dead_letter --dead-letter-topic /default/failed-orders",
    ],
)
@click.argument("topic", type=topic_name)
@click.argument("name")
@click.option(
    "--max-redelivery-count", type=NUMBER, help="Redeliveries before a message counts as poison."
)
@click.option(
    "--ack-timeout-ms",
    type=NUMBER,
    help="Time after which an unacknowledged message is redelivered; 0 means never.",
)
@click.option("--base-redelivery-delay-ms", type=NUMBER, help="Delay before the first redelivery.")
@click.option("--max-redelivery-delay-ms", type=NUMBER, help="Longest delay between redeliveries.")
@click.option(
    "--backoff",
    type=MemberOf(Backoff),
    help="How the delay grows with each redelivery.",
)
@click.option("--poison", type=MemberOf(Poison), help="What to do with poison messages.")
@click.option(
    "--dead-letter-topic", type=topic_name, metavar="TOPIC", help="Topic for dead letters."
)
@click.option(
    "--dead-letter-expired",
    type=bool,
    metavar="true|false",
    help="Whether messages that expired untaken become dead letters.",
)
@_in_advance
def policy(
    settings: CliSettings, /, topic: str, name: str, in_advance: bool, **changes: Any
) -> None:
    """Show or change what happens to messages that are not acknowledged."""
    given = {field: value for field, value in changes.items() if value is not None}
    if given:
        wanted = cast("FailureChanges", given)
        policies = _ask_each(
            settings,
            topic,
            lambda admin, part: admin.policy(part, name, in_advance=in_advance, **wanted),
        )
    else:
        found = _ask_each(settings, topic, lambda admin, part: admin.describe(part, name))
        policies = [each.failure_policy for each in found]
    if shown_as_json(settings, policies):
        return
    for each in policies:
        print_fields(each)


@subscription.command(
    "dispatch",
    examples=[
        "sulina subscription dispatch /default/orders billing",
        "sulina subscription dispatch /default/orders billing --max-unacked 10",
    ],
)
@click.argument("topic", type=topic_name)
@click.argument("name")
@click.option(
    "--max-unacked",
    type=NUMBER,
    help="Maximum unacknowledged messages of all its consumers; 0 leaves it to each consumer.",
)
@_in_advance
def dispatch(
    settings: CliSettings, topic: str, name: str, max_unacked: int | None, in_advance: bool
) -> None:
    """Show or change the limit of unacknowledged messages, which applies to each partition."""
    found = _ask_each(
        settings,
        topic,
        lambda admin, part: admin.dispatch(
            part, name, max_unacked=max_unacked, in_advance=in_advance
        ),
    )
    if shown_as_json(settings, found):
        return
    for each in found:
        print_fields({"max_unacked": each.max_unacked or "no limit"})
