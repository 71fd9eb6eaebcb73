"""``sulina topic``: make, list, describe, limit, place and delete topics."""

from __future__ import annotations

from typing import Any, Final

import click

from sulina.cli.commands import Group
from sulina.cli.confirm import confirm
from sulina.cli.output import (
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
from sulina.cli.running import ask
from sulina.cli.settings import Settings
from sulina.cli.topic_places import ledgers, lookup, move
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


@click.group(cls=Group)
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
    settings: Settings,
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
def list_(settings: Settings, namespace: str | None, all_: bool) -> None:
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
def describe(settings: Settings, name: str) -> None:
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
def delete(settings: Settings, name: str, yes: bool) -> None:
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
def policy(settings: Settings, name: str, limits: tuple[tuple[str, int | bool], ...]) -> None:
    """Show a topic's limits, or set some: how long data is kept, how many may connect.

    0 is no limit. What a topic does not set itself, its namespace decides.
    """
    show_limits(settings, ask(settings, "topic.policy", topic=name, **dict(limits)))


for _command in (lookup, move, ledgers):
    topic.add_command(_command)
