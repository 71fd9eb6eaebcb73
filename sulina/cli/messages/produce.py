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
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Publish the lines of this file (- for standard input); may be repeated.",
)
@click.option("--whole-file", is_flag=True, help="Publish each file as one message.")
@click.option("--key", help="Key of every message.")
@click.option(
    "--key-separator", metavar="SEP", help="Take the text before SEP in each message as its key."
)
@click.option(
    "--attribute",
    "attributes",
    type=attribute,
    metavar="NAME=VALUE",
    multiple=True,
    help="Attribute of every message; may be repeated.",
)
@click.option(
    "--count",
    type=COUNT,
    help="Publish this many messages: MESSAGEs are repeated, input is read no further.",
)
@click.option("--rate", type=POSITIVE, help="Maximum messages per second.")
@click.option(
    "--delay",
    type=duration,
    metavar="TIME",
    help="Deliver after this delay, such as 90s, 15m, 2h or 7d.",
)
@click.option(
    "--deliver-at",
    type=moment,
    metavar="TIME",
    help="Deliver at this time, such as 2026-05-01T12:30:00Z, not before.",
)
@compression_option
@click.option(
    "--non-reliable",
    is_flag=True,
    help="Create the topic, if necessary, as one that stores nothing.",
)
@click.option(
    "--producer-name", metavar="NAME", help="Continue the sequence of the producer with this name."
)
@click.pass_obj
def produce(
    settings: CliSettings,
    topic: str,
    messages: tuple[str, ...],
    files: tuple[str, ...],
    whole_file: bool,
    key: str | None,
    key_separator: str | None,
    attributes: tuple[tuple[str, str], ...],
    count: int | None,
    rate: float | None,
    delay: timedelta | None,
    deliver_at: datetime | None,
    compression: str,
    non_reliable: bool,
    producer_name: str | None,
) -> None:
    """Publish messages to TOPIC.

    Messages are the MESSAGE arguments, the lines of each --file or, with neither, the lines of
    standard input, published as they arrive. When the command exits with 0, a reliable topic has
    stored all of them.
    """
    if messages and files:
        raise click.UsageError("give MESSAGEs or --file, not both")
    if whole_file and not files:
        raise click.UsageError("--whole-file needs a --file")
    if key is not None and key_separator is not None:
        raise click.UsageError("give --key or --key-separator, not both")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("give --delay or --deliver-at, not both")
    if key_separator == "":
        raise click.UsageError("--key-separator can't be empty")
    plan = _PublishPlan(
        topic=topic,
        source=MessageSource(messages, files, whole_file=whole_file, repeat=count is not None),
        stamp=_MessageOptions(key, key_separator, dict(attributes), delay, deliver_at),
        count=count,
        pacer=Pacer(rate),
        compression=compression,
        delivery="non_reliable" if non_reliable else None,
        name=producer_name,
    )
    run(_publish(settings, plan))


@dataclass(frozen=True, slots=True)
class _MessageOptions:
    """What every message has besides its payload."""

    key: str | None
    separator: str | None
    attributes: dict[str, str]
    delay: timedelta | None
    deliver_at: datetime | None

    async def send(self, producer: Producer, payloads: list[bytes]) -> Ticket:
        """Send them; waits while too much is in flight."""
        keys: list[bytes | str | None] | None = None
        if self.separator is not None:
            keys, payloads = self._split(self.separator.encode(), payloads)
        elif self.key is not None:
            keys = [self.key] * len(payloads)
        attributes = [self.attributes] * len(payloads) if self.attributes else None
        return await producer.send_many(
            payloads,
            keys=keys,
            attributes=attributes,
            delay=self.delay,
            deliver_at=self.deliver_at,
        )

    @staticmethod
    def _split(
        separator: bytes, payloads: list[bytes]
    ) -> tuple[list[bytes | str | None], list[bytes]]:
        keys: list[bytes | str | None] = []
        rest: list[bytes] = []
        for payload in payloads:
            before, found, after = payload.partition(separator)
            keys.append(before if found else None)
            rest.append(after if found else payload)
        return keys, rest


@dataclass(frozen=True, slots=True)
class _PublishPlan:
    """What to publish, where, and how."""

    topic: str
    source: MessageSource
    stamp: _MessageOptions
    count: int | None
    pacer: Pacer
    compression: str
    delivery: str | None
    name: str | None


@dataclass(slots=True)
class _Sent:
    """What was sent so far."""

    messages: int = 0
    bytes: int = 0
    ticket: Ticket | None = None


async def _publish(settings: CliSettings, plan: _PublishPlan) -> None:
    sent = _Sent()
    interrupted: asyncio.CancelledError | None = None
    async with (
        connected(settings) as client,
        client.producer(
            plan.topic, name=plan.name, delivery=plan.delivery, compression=plan.compression
        ) as producer,
    ):
        plan.source.hint(settings)
        began = time.monotonic()
        try:
            await _send_all(settings, plan, producer, sent)
        except asyncio.CancelledError as error:
            # Ctrl-C ends the input: publish and report what was read before it.
            interrupted = error
        await producer.flush()
        _report(settings, plan.topic, sent, await _last(sent), time.monotonic() - began)
    if interrupted is not None:
        raise interrupted


async def _send_all(
    settings: CliSettings, plan: _PublishPlan, producer: Producer, sent: _Sent
) -> None:
    counted = plan.count is not None
    total = plan.count if counted else plan.source.total
    with Progress(settings, "publishing", total) as progress:
        async for payloads in plan.pacer.paced(limited(plan.source.batches(), plan.count)):
            sent.ticket = await plan.stamp.send(producer, payloads)
            sent.messages += len(payloads)
            sent.bytes += sum(map(len, payloads))
            done = sent.messages if counted else plan.source.done
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
