"""``sulina topic retention``: what retention removes and when, and how to undo it."""

from __future__ import annotations

from typing import Any, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import columns, moment, plural, print_table, say, shown_as_json, size
from sulina.cli.params import limit, topic_name
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.operations.topics import LedgerFate, RetentionUndone, TopicRetention

_COLUMNS: Final = columns(
    "topic",
    "ledger",
    "first_offset",
    "last_offset",
    "bytes",
    "stored",
    "leaves",
    "reason",
    "deleted",
)
_FIELDS: Final = ("retention_ms", "retention_bytes", "delete_consumed")


@click.command(
    cls=CliCommand,
    examples=[
        "sulina topic retention /default/orders",
        "sulina topic retention /default/orders --preview retention_ms=7d",
        "sulina topic retention /default/orders --undo",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    "--preview",
    "asked",
    metavar="FIELD=VALUE",
    multiple=True,
    type=limit,
    help="Show what the policy would remove with this value; may be repeated.",
)
@click.option("--undo", is_flag=True, help="Restore what was removed and is not deleted yet.")
def retention(
    settings: CliSettings, name: str, asked: tuple[tuple[str, int | bool | None], ...], undo: bool
) -> None:
    """Show what retention removes of a topic, and when; nothing is changed without --undo.

    A ledger leaves the topic first. Its data is deleted later, and until then it can be restored,
    once the policy no longer removes it.
    """
    unknown = [field for field, _ in asked if field not in _FIELDS]
    if unknown:
        raise click.UsageError(f"--preview takes {', '.join(_FIELDS)}, not {unknown[0]}")
    if undo:
        if asked:
            raise click.UsageError("give --preview or --undo, not both")
        undone = run(_undo(settings, name))
        count = sum(each.ledgers for each in undone)
        said = f"restored {plural(count, 'ledger')} of {name}"
        if count:
            said += "; subscriptions stay where they are: `sulina subscription seek` moves one back"
        say(settings, said, undone)
        return
    found = run(_look(settings, name, dict(asked)))
    if shown_as_json(settings, found):
        return
    rows = [_row(each, fate) for each in found for fate in (*each.removed, *each.ledgers)]
    print_table(rows, _COLUMNS)


async def _look(settings: CliSettings, name: str, asked: dict[str, Any]) -> list[TopicRetention]:
    async with connected(settings) as client:
        parts = (await client.topic(name)).parts
        return [await client.admin.topics.retention(part, **asked) for part, _ in parts]


async def _undo(settings: CliSettings, name: str) -> list[RetentionUndone]:
    async with connected(settings) as client:
        undone = []
        for part, _ in (await client.topic(name)).parts:
            if (await client.admin.topics.retention(part)).removed or part == name:
                undone.append(await client.admin.topics.undo_retention(part))
        return undone


def _row(found: TopicRetention, fate: LedgerFate) -> dict[str, Any]:
    removed = fate in found.removed
    leaves = "" if fate.leaves_us is None else moment(fate.leaves_us)
    if not removed and fate.leaves_us is not None and fate.leaves_us <= found.now_us:
        leaves = "now"
    return {
        "topic": found.topic,
        "ledger": fate.ledger,
        "first_offset": fate.first_offset,
        "last_offset": fate.last_offset,
        "bytes": size(fate.bytes),
        "stored": " and ".join(
            kind for kind, there in (("entries", fate.entries), ("object", fate.object)) if there
        ),
        "leaves": f"removed {leaves}" if removed else leaves or "not by age",
        "reason": fate.reason,
        "deleted": None if fate.deleted_us is None else moment(fate.deleted_us),
    }
