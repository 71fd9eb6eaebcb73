"""``sulina produce``: publish from arguments, standard input or files."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.messages.sources import MessageSource, Pacer, limited
from sulina.cli.options import option, options
from sulina.cli.output import plural, say, size
from sulina.cli.params import (
    COUNT,
    POSITIVE,
    attribute,
    compression_option,
    duration,
    moment,
    topic_name,
)
from sulina.cli.progress import Progress
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import SulinaError

if TYPE_CHECKING:
    from sulina import MessageId, Producer, Ticket


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """What to publish, in the order in which the help shows it."""

    files: tuple[str, ...] = option(
        (),
        "Publish the lines of this file (- for standard input); may be repeated.",
        flag="--file",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    )
    whole_file: bool = option(False, "Publish each file as one message.")
    key: str | None = option(None, "Key of every message.")
    key_separator: str | None = option(
        None, "Take the text before SEP in each message as its key.", metavar="SEP"
    )
    attributes: tuple[tuple[str, str], ...] = option(
        (),
        "Attribute of every message; may be repeated.",
        flag="--attribute",
        type=attribute,
        metavar="NAME=VALUE",
        multiple=True,
    )
    count: int | None = option(
        None,
        "Publish this many messages: MESSAGEs are repeated, input is read no further.",
        type=COUNT,
    )
    rate: float | None = option(None, "Maximum messages per second.", type=POSITIVE)
    delay: timedelta | None = option(
        None,
        "Deliver after this delay, such as 90s, 15m, 2h or 7d.",
        type=duration,
        metavar="TIME",
    )
    deliver_at: datetime | None = option(
        None,
        "Deliver at this time, such as 2026-05-01T12:30:00Z, not before.",
        type=moment,
        metavar="TIME",
    )
    expires: timedelta | None = option(
        None,
        "Deliver to no subscription once this much time has passed, such as 90s, 15m, 2h or 7d.",
        type=duration,
        metavar="TIME",
    )
    compression: str = compression_option()
    non_reliable: bool = option(
        False, "Create the topic, if necessary, as one that stores nothing."
    )
    producer_name: str | None = option(
        None, "Continue the sequence of the producer with this name.", metavar="NAME"
    )

    async def send(self, producer: Producer, payloads: list[bytes]) -> Ticket:
        """Send messages with these payloads; waits while too much is in flight."""
        keys: list[bytes | str | None] | None = None
        if self.key_separator is not None:
            keys, payloads = _split(self.key_separator.encode(), payloads)
        elif self.key is not None:
            keys = [self.key] * len(payloads)
        attributes = [dict(self.attributes)] * len(payloads) if self.attributes else None
        return await producer.send_many(
            payloads,
            keys=keys,
            attributes=attributes,
            delay=self.delay,
            deliver_at=self.deliver_at,
            expires=self.expires,
        )


def _split(separator: bytes, payloads: list[bytes]) -> tuple[list[bytes | str | None], list[bytes]]:
    keys: list[bytes | str | None] = []
    rest: list[bytes] = []
    for payload in payloads:
        before, found, after = payload.partition(separator)
        keys.append(before if found else None)
        rest.append(after if found else payload)
    return keys, rest


@click.command(
    cls=CliCommand,
    examples=[
        'sulina produce /default/orders "an order" "another order"',
        "seq 1000000 | sulina produce /default/numbers --compression lz4",
        "sulina produce /default/events --file events.jsonl --rate 500",
        'sulina produce /default/users "7:Ada" --key-separator :',
        "sulina produce /default/images --file logo.png --whole-file --key logo",
        'sulina produce /default/reminders "call back" --delay 2h',
    ],
)
@click.argument("topic", type=topic_name)
@click.argument("messages", metavar="[MESSAGE]...", nargs=-1)
@options(ProduceOptions)
def produce(
    settings: CliSettings, topic: str, messages: tuple[str, ...], options: ProduceOptions
) -> None:
    """Publish messages to TOPIC.

    Messages are the MESSAGE arguments, the lines of each --file or, with neither, the lines of
    standard input, published as they arrive. When the command exits with 0, a reliable topic has
    stored all of them.
    """
    if messages and options.files:
        raise click.UsageError("give MESSAGEs or --file, not both")
    if options.whole_file and not options.files:
        raise click.UsageError("--whole-file needs a --file")
    if options.key is not None and options.key_separator is not None:
        raise click.UsageError("give --key or --key-separator, not both")
    if options.delay is not None and options.deliver_at is not None:
        raise click.UsageError("give --delay or --deliver-at, not both")
    if options.key_separator == "":
        raise click.UsageError("--key-separator can't be empty")
    repeat = options.count is not None
    source = MessageSource(messages, options.files, whole_file=options.whole_file, repeat=repeat)
    run(_publish(settings, topic, source, options))


@dataclass(slots=True)
class _Sent:
    """What was sent so far."""

    messages: int = 0
    bytes: int = 0
    ticket: Ticket | None = None


async def _publish(
    settings: CliSettings, topic: str, source: MessageSource, options: ProduceOptions
) -> None:
    sent = _Sent()
    interrupted: asyncio.CancelledError | None = None
    async with (
        connected(settings) as client,
        client.producer(
            topic,
            name=options.producer_name,
            delivery="non_reliable" if options.non_reliable else None,
            compression=options.compression,
        ) as producer,
    ):
        source.hint(settings)
        began = time.monotonic()
        try:
            await _send_all(settings, source, options, producer, sent)
        except asyncio.CancelledError as error:
            # Ctrl-C ends the input: publish and report what was read before it.
            interrupted = error
        await producer.flush()
        _report(settings, topic, sent, await _last(sent), time.monotonic() - began)
    if interrupted is not None:
        raise interrupted


async def _send_all(
    settings: CliSettings,
    source: MessageSource,
    options: ProduceOptions,
    producer: Producer,
    sent: _Sent,
) -> None:
    counted = options.count is not None
    total = options.count if counted else source.total
    batches = Pacer(options.rate).paced(limited(source.batches(), options.count))
    with Progress(settings, "publishing", total) as progress:
        async for payloads in batches:
            sent.ticket = await options.send(producer, payloads)
            sent.messages += len(payloads)
            sent.bytes += sum(map(len, payloads))
            done = sent.messages if counted else source.done
            progress.show(done, plural(sent.messages, "message"))


async def _last(sent: _Sent) -> MessageId | None:
    """The position of the last message, if it is known."""
    with suppress(SulinaError):
        if sent.ticket is not None and (found := await sent.ticket).offset >= 0:
            return found
    return None


def _report(
    settings: CliSettings, topic: str, sent: _Sent, last: MessageId | None, seconds: float
) -> None:
    rate = sent.messages / max(seconds, 1e-9)
    sentence = (
        f"published {plural(sent.messages, 'message')} ({size(sent.bytes)}) to {topic} in "
        f"{seconds:.2f} s, {rate:,.0f}/s"
    )
    if last is not None:
        where = "" if last.topic == topic else f" of {last.topic}"
        sentence += f", last offset {last.offset}{where}"
    say(
        settings,
        sentence,
        {
            "topic": topic,
            "messages": sent.messages,
            "bytes": sent.bytes,
            "seconds": round(seconds, 6),
            "rate": round(rate, 1),
            "last": None if last is None else {"topic": last.topic, "offset": last.offset},
        },
    )
