"""``sulina peek``: read stored messages of a topic without a subscription."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.messages.printing import Printer, printing_options
from sulina.cli.options import option, options
from sulina.cli.params import COUNT, FROM, topic_name
from sulina.cli.pipes import write
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.model import Start

if TYPE_CHECKING:
    from sulina import Client

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class PeekOptions:
    """What to read, in the order in which the help shows it."""

    start: Start | None = option(None, "Where to start. [default: earliest]", **FROM)
    last: int | None = option(None, "Start this many messages before the end.", type=COUNT)
    count: int | None = option(
        None, "Maximum number of messages. [default: 10, or the value of --last]", type=COUNT
    )
    key: str = option("", "Only messages with exactly this key.", metavar="TEXT")
    text: str = option("", "Only messages with this in payload, key or attributes.", metavar="TEXT")


@click.command(
    cls=CliCommand,
    examples=[
        "sulina peek /default/orders",
        "sulina peek /default/orders --last 5 --show-offset --show-time",
        "sulina peek /default/orders --from 1200 --count 50 --json",
        "sulina peek /default/orders --key customer-7 --count 3",
        "sulina peek /default/orders-part-0 --from 2026-05-01T12:30:00Z",
    ],
)
@click.argument("topic", type=topic_name)
@options(PeekOptions)
@printing_options
def peek(
    settings: CliSettings, /, topic: str, options: PeekOptions, form: str | None, **shown: bool
) -> None:
    """Print messages stored in TOPIC.

    Nothing is acknowledged, and no subscription changes. Partitions are read one after the other;
    --last and --count apply to each of them.
    """
    if options.start is not None and options.last is not None:
        raise click.UsageError("give --from or --last, not both")
    sys.stdout.flush()  # output goes to the file descriptor from here on
    run(_peek(settings, topic, options, Printer(settings, form, shown)))


async def _peek(settings: CliSettings, topic: str, options: PeekOptions, printer: Printer) -> None:
    start = options.start or Start.earliest()
    async with connected(settings) as client:
        info = await client.topic(topic)
        for name, _ in info.parts:
            if options.last is not None:
                start = await _before_end(client, name, options.last)
            count = options.count or options.last or 10
            if options.key or options.text:
                await _print_found(client, name, start, count, options, printer)
            else:
                await _print_from(client, name, start, count, printer)


async def _before_end(client: Client, topic: str, last: int) -> Start:
    log = await client.admin.topics.log(topic)
    return Start.offset(max(log.end_offset - last, 0))


async def _print_from(
    client: Client, topic: str, start: Start, count: int, printer: Printer
) -> None:
    at_end = False
    while count and not at_end:
        result = await client.read(topic, start, max_records=count)
        for batch in result:
            await write(1, printer(batch))
        count -= len(result)
        start, at_end = Start.offset(result.next_offset), result.at_end


async def _print_found(
    client: Client, topic: str, start: Start, count: int, options: PeekOptions, printer: Printer
) -> None:
    """The broker finds them; each is then read whole."""
    at_end = False
    while count and not at_end:
        found = await client.admin.messages.search(
            topic, key=options.key, text=options.text, start=start, limit=min(count, _AT_ONCE)
        )
        for message in found.messages:
            one = await client.read(topic, Start.offset(message.offset), max_records=1)
            for batch in one:
                await write(1, printer(batch))
        count -= len(found.messages)
        start, at_end = Start.offset(found.next_offset), found.at_end
