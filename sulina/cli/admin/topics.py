"""``sulina topic``: create, list, describe, move and delete topics, and set their policies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import click

from sulina.cli.admin.copies import copy, restore
from sulina.cli.admin.dead_letters import replay
from sulina.cli.admin.erasure import erase
from sulina.cli.admin.retention import retention
from sulina.cli.command import CliGroup
from sulina.cli.output import (
    columns,
    confirm,
    echo,
    moment,
    plural,
    print_fields,
    print_table,
    say,
    show_fields,
    show_limits,
    show_rows,
    shown_as_json,
)
from sulina.cli.params import NUMBER, limit, namespace_name, topic_name, yes_option
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import Retriable, UnknownOutcome
from sulina.metadata.keys.policy import contradictions
from sulina.model import Delivery
from sulina.names import MAX_PARTITIONS
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.topics import TopicLimits, TopicLog, TopicMove

_LOG_COLUMNS: Final = columns(
    "topic", "start_offset", "end_offset", "compacted_to", "epoch", "ledgers", "bytes", "producers"
)
SUBSCRIPTION_COLUMNS: Final = columns(
    "topic", "subscription", "type", "position", "backlog", "consumers", "stalled"
)
_LOOK_SECONDS: Final = 0.1
_LEDGERS: Final = {"id": "ledger"} | columns(
    "state", "first_offset", "last_offset", "last_entry", "bytes"
)


@click.group(cls=CliGroup)
def topic() -> None:
    """Create, list, describe, move and delete topics."""


@topic.command(
    "create",
    examples=[
        "sulina topic create /default/orders",
        "sulina topic create /default/clicks --partitions 8",
        "sulina topic create /default/prices --non-reliable",
        "sulina topic create /default/clicks --expect-records 20000 --expect-bytes 4000000",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    help="Number of partitions. Messages are ordered within a partition.",
)
@click.option(
    "--non-reliable",
    is_flag=True,
    help="Store nothing: consumers that are not connected miss messages.",
)
@click.option(
    "--expect-records",
    type=NUMBER,
    help="Expected records per second, in and out; a cluster uses it to place the topic.",
)
@click.option("--expect-bytes", type=NUMBER, help="Expected bytes per second, in and out.")
def create(
    settings: CliSettings,
    name: str,
    partitions: int | None,
    non_reliable: bool,
    expect_records: int | None,
    expect_bytes: int | None,
) -> None:
    """Create a topic. Publishing or subscribing creates an unpartitioned one automatically."""
    delivery = Delivery.NON_RELIABLE if non_reliable else Delivery.RELIABLE
    ask(
        settings,
        lambda admin: admin.topics.create(
            name,
            delivery=delivery,
            partitions=partitions or 0,
            expected_records=expect_records or 0,
            expected_bytes=expect_bytes or 0,
        ),
    )
    parts = f" with {plural(partitions, 'partition')}" if partitions else ""
    say(
        settings,
        f"created topic {name}{parts}",
        {"topic": name, "delivery": delivery, "partitions": partitions or 0},
    )


@topic.command("list", examples=["sulina topic list", "sulina topic list --namespace default"])
@click.option(
    "--namespace",
    type=namespace_name,
    metavar="NAMESPACE",
    help="List only topics of this namespace.",
)
@click.option("--all", "all_", is_flag=True, help="List partitions too.")
def list_(settings: CliSettings, namespace: str | None, all_: bool) -> None:
    """List the topics."""
    show_rows(
        settings,
        ask(settings, lambda admin: admin.topics.list(namespace=namespace, all=all_)),
        columns("topic", "delivery", "partitions", "records", "producers", "consumers"),
        nothing="there are no topics: `sulina topic create /default/orders` creates one",
    )


@topic.command("describe", examples=["sulina topic describe /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
def describe(settings: CliSettings, name: str) -> None:
    """Show a topic's logs, ledgers, producers and subscriptions."""
    described = ask(settings, lambda admin: admin.topics.describe(name))
    if shown_as_json(settings, described):
        return
    logs = described.logs
    print_fields(
        {
            "topic": described.topic,
            "delivery": described.delivery,
            "partitions": described.partitions,
            "created": moment(described.created_us),
            "records": sum(log.end_offset - log.start_offset for log in logs),
        }
    )
    print_table(map(_log_row, logs), _LOG_COLUMNS)
    subscriptions = [row for log in logs for row in log.subscriptions]
    if subscriptions:
        print_table(subscriptions, SUBSCRIPTION_COLUMNS)


@topic.command("delete", examples=["sulina topic delete /default/orders --yes"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@yes_option
def delete(settings: CliSettings, name: str, yes: bool) -> None:
    """Delete a topic, its messages and its subscriptions. Asks for confirmation on a terminal."""
    confirm(settings, f"delete topic {name} with all its messages and subscriptions?", yes=yes)
    ask(settings, lambda admin: admin.topics.delete(name))
    say(settings, f"deleted topic {name}", {"topic": name})


def _log_row(log: TopicLog) -> dict[str, Any]:
    ledgers = log.ledgers
    return {
        **plain(log),
        "ledgers": len(ledgers),
        # The size of an open ledger is known once it is closed.
        "bytes": sum(ledger.bytes for ledger in ledgers) or None,
        "producers": len(log.producers),
    }


@topic.command(
    "policy",
    examples=[
        "sulina topic policy /default/orders",
        "sulina topic policy /default/orders retention_ms=7d delete_consumed=true",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.argument("limits", metavar="[LIMIT=VALUE]...", nargs=-1, type=limit)
def policy(
    settings: CliSettings, name: str, limits: tuple[tuple[str, int | bool | None], ...]
) -> None:
    """Show or set the limits of a topic: retention, producers, consumers and others.

    Times take s, m, h and d (7d), sizes kB, MB, GB, KiB, MiB and GiB (10GB); without a unit they
    are milliseconds and bytes. 0 means no limit, and `default` as a value removes the topic's own.
    A limit that the topic does not set comes from its namespace, then from the brokers' settings
    (policy.*).
    """
    changes = cast("TopicLimits", dict(limits))
    found = ask(settings, lambda admin: admin.topics.policy(name, **changes))
    if settings.json:
        show_limits(settings, found)
        return
    show_limits(settings, found, ask(settings, lambda admin: admin.topics.policy_sources(name)))
    for problem in contradictions(found):
        echo(f"Warning: {problem}.")


@topic.command("lookup", examples=["sulina topic lookup /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
def lookup(settings: CliSettings, name: str) -> None:
    """Show which broker serves a topic. A topic without an owner is assigned one.

    For a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, lambda admin: admin.topics.lookup(name))
    show_fields(settings, found)


@topic.command(
    "move",
    examples=[
        "sulina topic move /default/orders",
        "sulina topic move /default/orders --to broker-2 --wait",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    "--to", "target", metavar="BROKER", help="The new owner. [default: the least loaded broker]"
)
@click.option("--wait", is_flag=True, help="Wait until the new owner serves it.")
def move(settings: CliSettings, name: str, target: str | None, wait: bool) -> None:
    """Move a topic to another broker. Its clients follow without an error."""
    done = run(_move(settings, name, target, wait))
    doing = "moved" if wait else "moving"
    say(settings, f"{doing} {name} from {done.source} to {done.target}", done)


async def _move(settings: CliSettings, name: str, target: str | None, wait: bool) -> TopicMove:
    async with connected(settings) as client:
        done = await client.admin.topics.move(name, broker=target)
        loop = asyncio.get_running_loop()
        end = loop.time() + settings.timeout
        with Progress(settings, f"moving {name}", None) as progress:
            while wait:
                try:
                    found = await client.admin.topics.lookup(name)
                    if found.broker == done.target and not found.moving_to:
                        break
                except (Retriable, UnknownOutcome):
                    pass  # the topic is between brokers
                if loop.time() > end:
                    raise Retriable(
                        f"{name} did not move within {settings.timeout:g} s: `sulina topic lookup "
                        f"{name}` shows its owner"
                    )
                progress.show(0, f"to {done.target}")
                await asyncio.sleep(_LOOK_SECONDS)
        return done


topic.add_command(copy)
topic.add_command(retention)
topic.add_command(restore)
topic.add_command(erase)
topic.add_command(replay)


@topic.command("ledgers", examples=["sulina topic ledgers /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
def ledgers(settings: CliSettings, name: str) -> None:
    """List the ledgers of a topic, in order. The open one is being written.

    For a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, lambda admin: admin.topics.ledgers(name))
    if shown_as_json(settings, found):
        return
    echo(f"{name}, epoch {found.epoch}")
    show_rows(settings, found.ledgers, _LEDGERS, nothing=f"{name} has no ledgers yet")
