"""``sulina topic``: make, list, describe, limit, place and delete topics."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import (
    confirm,
    moment,
    plural,
    print_fields,
    print_table,
    say,
    show_limits,
    show_rows,
    write_json,
)
from sulina.cli.params import limit, namespace_name, topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, given, run
from sulina.cli.settings import CliSettings
from sulina.errors import Retriable, UnknownOutcome
from sulina.names import MAX_PARTITIONS

_LOG_COLUMNS: Final = {
    "topic": "log",
    "start_offset": "start",
    "end_offset": "end",
    "epoch": "epoch",
    "ledgers": "ledgers",
    "bytes": "bytes",
    "producers": "producers",
}
SUBSCRIPTION_COLUMNS: Final = {
    "topic": "topic",
    "subscription": "subscription",
    "type": "type",
    "position": "position",
    "backlog": "backlog",
    "consumers": "consumers",
    "stalled": "stalled",
}
_LOOK_SECONDS: Final = 0.1
_LEDGERS: Final = {
    "id": "ledger",
    "state": "state",
    "first_offset": "first offset",
    "last_offset": "last offset",
    "last_entry": "last entry",
    "bytes": "bytes",
}


@click.group(cls=CliGroup)
def topic() -> None:
    """Make, list, describe, move and delete topics."""


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
    help="Spread it over so many partitions; order then holds within each.",
)
@click.option(
    "--non-reliable", is_flag=True, help="Store nothing: who is not there misses the message."
)
@click.option(
    "--expect-records",
    type=click.IntRange(min=0),
    help="Records a second, in and out, that you expect: helps a cluster to place it.",
)
@click.option("--expect-bytes", type=click.IntRange(min=0), help="The same in bytes a second.")
@click.pass_obj
def create(
    settings: CliSettings,
    name: str,
    partitions: int | None,
    non_reliable: bool,
    expect_records: int | None,
    expect_bytes: int | None,
) -> None:
    """Make a topic. Producers and consumers make plain ones by themselves."""
    delivery = "non_reliable" if non_reliable else "reliable"
    ask(
        settings,
        "topic.create",
        topic=name,
        delivery=delivery,
        partitions=partitions,
        expected_records=expect_records,
        expected_bytes=expect_bytes,
    )
    parts = f" with {plural(partitions, 'partition')}" if partitions else ""
    say(
        settings,
        f"{name} is made{parts}",
        {"topic": name, "delivery": delivery, "partitions": partitions or 0},
    )


@topic.command("list", examples=["sulina topic list", "sulina topic list --namespace default"])
@click.option("--namespace", type=namespace_name, help="Only those of this namespace.")
@click.option("--all", "all_", is_flag=True, help="The partitions as well.")
@click.pass_obj
def list_(settings: CliSettings, namespace: str | None, all_: bool) -> None:
    """List the topics."""
    show_rows(
        settings,
        ask(settings, "topic.list", namespace=namespace, all=all_),
        {
            "topic": "topic",
            "delivery": "delivery",
            "partitions": "partitions",
            "records": "records",
            "producers": "producers",
            "consumers": "consumers",
        },
        nothing="there are no topics: `sulina topic create /default/orders` makes one",
    )


@topic.command("describe", examples=["sulina topic describe /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.pass_obj
def describe(settings: CliSettings, name: str) -> None:
    """Show a topic's logs, ledgers, producers and subscriptions."""
    described = ask(settings, "topic.describe", topic=name)
    if settings.json:
        write_json(described)
        return
    logs = described["logs"]
    print_fields(
        {
            "topic": described["topic"],
            "delivery": described["delivery"],
            "partitions": described["partitions"],
            "made": moment(described["created_us"]),
            "records": sum(log["end_offset"] - log["start_offset"] for log in logs),
        }
    )
    print_table(map(_log_row, logs), _LOG_COLUMNS)
    subscriptions = [row for log in logs for row in log["subscriptions"]]
    if subscriptions:
        print_table(subscriptions, SUBSCRIPTION_COLUMNS)


@topic.command("delete", examples=["sulina topic delete /default/orders --yes"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.pass_obj
def delete(settings: CliSettings, name: str, yes: bool) -> None:
    """Delete a topic with its messages and subscriptions. On a terminal it asks first."""
    confirm(settings, f"delete {name} with all its messages and subscriptions?", yes=yes)
    ask(settings, "topic.delete", topic=name)
    say(settings, f"{name} is deleted", {"topic": name})


def _log_row(log: dict[str, Any]) -> dict[str, Any]:
    ledgers = log["ledgers"]
    return {
        **log,
        "ledgers": len(ledgers),
        # An open ledger's size is told when it is closed.
        "bytes": sum(ledger["bytes"] or 0 for ledger in ledgers) or None,
        "producers": len(log["producers"]),
    }


@topic.command(
    "policy",
    examples=[
        "sulina topic policy /default/orders",
        "sulina topic policy /default/orders retention_ms=604800000 delete_consumed=true",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.argument("limits", metavar="[LIMIT=VALUE]...", nargs=-1, type=limit)
@click.pass_obj
def policy(settings: CliSettings, name: str, limits: tuple[tuple[str, int | bool], ...]) -> None:
    """Show a topic's limits, or set some: how long data is kept, how many may connect.

    0 is no limit. What a topic does not set itself, its namespace decides.
    """
    show_limits(settings, ask(settings, "topic.policy", topic=name, **dict(limits)))


@topic.command("lookup", examples=["sulina topic lookup /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.pass_obj
def lookup(settings: CliSettings, name: str) -> None:
    """Show which broker serves a topic; one that nobody serves yet is placed now.

    Of a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, "topic.lookup", topic=name)
    if settings.json:
        write_json(found)
    else:
        print_fields(found)


@topic.command(
    "move",
    examples=[
        "sulina topic move /default/orders",
        "sulina topic move /default/orders --to broker-2 --wait",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--to", "target", metavar="BROKER", help="To this one. [default: the least loaded]")
@click.option("--wait", is_flag=True, help="Until the other broker serves it.")
@click.pass_obj
def move(settings: CliSettings, name: str, target: str | None, wait: bool) -> None:
    """Let another broker serve a topic. Its clients follow it without an error."""
    done = run(_move(settings, name, target, wait))
    doing = "is now served by" if wait else "moves to"
    say(settings, f"{name} {doing} {done['target']}, from {done['source']}", done)


async def _move(settings: CliSettings, name: str, target: str | None, wait: bool) -> dict[str, Any]:
    async with connected(settings) as client:
        done: dict[str, Any] = await client.admin(
            "topic.move", given({"topic": name, "broker": target})
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + settings.timeout
        with Progress(settings, f"moving {name}", None) as progress:
            while wait:
                try:
                    found = await client.admin("topic.lookup", {"topic": name})
                    if found["broker"] == done["target"] and not found["moving_to"]:
                        break
                except (Retriable, UnknownOutcome):
                    pass  # it is on its way
                if loop.time() > end:
                    raise Retriable(
                        f"{name} did not arrive in {settings.timeout:g} s: `sulina topic lookup "
                        f"{name}` shows where it is"
                    )
                progress.show(0, f"to {done['target']}")
                await asyncio.sleep(_LOOK_SECONDS)
        return done


@topic.command("ledgers", examples=["sulina topic ledgers /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.pass_obj
def ledgers(settings: CliSettings, name: str) -> None:
    """Show the ledgers of a topic, in order. One that is open is being written.

    Of a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, "topic.ledgers", topic=name)
    if settings.json:
        write_json(found)
        return
    click.echo(f"{name} in epoch {found['epoch']}")
    show_rows(settings, found["ledgers"], _LEDGERS, nothing="it has no ledgers yet")
