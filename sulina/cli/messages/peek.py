"""``sulina peek``: read stored messages of a topic without a subscription."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.messages.partitions import Filter, found, merged, stored
from sulina.cli.messages.printing import Printer, printing_options
from sulina.cli.options import option, options
from sulina.cli.params import COUNT, FROM, topic_name
from sulina.cli.pipes import write
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.model import Start

if TYPE_CHECKING:
    from sulina import Client, Message


@dataclass(frozen=True, slots=True)
class PeekOptions:
    """What to read, in the order in which the help shows it."""

    start: Start | None = option(None, "Where to start. [default: earliest]", **FROM)
    last: int | None = option(
        None, "Only this many messages, the newest of those asked for.", type=COUNT
    )
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
        "sulina peek /default/orders --key customer-7 --last 3",
        "sulina peek /default/orders-part-0 --from 2026-05-01T12:30:00Z",
    ],
)
@click.argument("topic", type=topic_name)
@options(PeekOptions)
@printing_options
def peek(
    settings: CliSettings, /, topic: str, options: PeekOptions, form: str | None, **shown: bool
) -> None:
    """Print messages stored in TOPIC, the oldest first.

    Nothing is acknowledged, and no subscription changes. All partitions are read at once, and their
    messages are printed by the time of publishing; --from with an offset starts there in each
    partition.
    """
    if options.start is not None and options.last is not None:
        raise click.UsageError("give --from or --last, not both")
    sys.stdout.flush()  # output goes to the file descriptor from here on
    run(_peek(settings, topic, options, Printer(settings, form, shown)))


async def _peek(settings: CliSettings, topic: str, options: PeekOptions, printer: Printer) -> None:
    async with connected(settings) as client:
        parts = [name for name, _ in (await client.topic(topic)).parts]
        count = options.count or options.last or 10
        if options.last is not None:
            newest = await _newest(client, parts, options.last, options)
            await write(1, printer(newest[:count]))
            return
        start, wanted = options.start or Start.earliest(), _wanted(options)
        pages = [
            found(client, part, start, count, wanted, newest_first=False)
            if wanted
            else stored(client, part, start, count)
            for part in parts
        ]
        async for messages in merged(pages):
            await write(1, printer(messages[:count]))
            count -= len(messages)
            if count <= 0:
                return


def _wanted(options: PeekOptions) -> Filter:
    return Filter(options.key, options.text)


async def _newest(
    client: Client, parts: Sequence[str], last: int, options: PeekOptions
) -> list[Message]:
    """The newest messages of all partitions together, the oldest of them first."""
    if wanted := _wanted(options):
        start = Start.earliest()
        pages = [found(client, part, start, last, wanted, newest_first=True) for part in parts]
        matching: list[Message] = []
        async for messages in merged(pages, newest_first=True):
            matching += messages
            if len(matching) >= last:
                break
        return matching[:last][::-1]
    kept: deque[Message] = deque(maxlen=last)
    starts = [await _before_end(client, part, last) for part in parts]
    pages = [stored(client, part, at, last) for part, at in zip(parts, starts, strict=True)]
    async for messages in merged(pages):
        kept.extend(messages)
    return list(kept)


async def _before_end(client: Client, topic: str, last: int) -> Start:
    log = await client.admin.topics.log(topic)
    return Start.offset(max(log.end_offset - last, 0))
