"""``sulina consume``: receive messages, print them, acknowledge them."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.messages.printing import Printer, printing_options
from sulina.cli.options import option, options
from sulina.cli.output import plural
from sulina.cli.params import COUNT, FROM, POSITIVE, TYPE, topic_name
from sulina.cli.pipes import abandoned, is_pipe, write
from sulina.cli.running import connected, run
from sulina.cli.settings import COMMON, CliSettings
from sulina.errors import Retriable, SulinaError
from sulina.model import FailurePolicy, Start, SubscriptionType

if TYPE_CHECKING:
    from sulina import Batch, Client, Consumer

_UNSUBSCRIBE_SECONDS: Final = 2.0
"""Time to wait for the broker to delete the temporary subscription."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What to receive, in the order in which the help shows it."""

    subscription: str | None = option(
        None,
        "Continue this subscription, which is created if necessary. "
        "[default: a temporary one, deleted at the end]",
        metavar="NAME",
    )
    type: SubscriptionType = option(SubscriptionType.EXCLUSIVE, "The subscription type.", **TYPE)
    start: Start = option(
        Start.latest(), "Where a new subscription starts.", default="latest", **FROM
    )
    count: int | None = option(None, "Exit after this many messages.", type=COUNT)
    idle_seconds: float | None = option(
        None,
        "Exit after this many seconds without a message.",
        flag="--timeout",
        type=POSITIVE,
        metavar="SECONDS",
    )
    no_ack: bool = option(False, "Do not acknowledge: messages are delivered again later.")
    key_filters: tuple[str, ...] = option(
        (),
        "Receive only keys that match this pattern; may be repeated.",
        flag="--key-filter",
        multiple=True,
    )
    consumer_name: str | None = option(
        None, "Name of this consumer in the broker's lists.", metavar="NAME"
    )


@click.command(
    cls=CliCommand,
    # --timeout of this command waits for messages; the common one can be given before it.
    common=[name for name in COMMON if name != "timeout"],
    examples=[
        "sulina consume /default/orders --from earliest",
        "sulina consume /default/orders --subscription billing --type shared",
        "sulina consume /default/orders --from 2026-05-01T12:30:00Z --count 100 --json",
        "sulina consume /default/users --show-key --show-time",
        "sulina consume /default/orders --json | jq .payload",
    ],
)
@click.argument("topic", type=topic_name)
@options(ConsumeOptions)
@printing_options
def consume(
    settings: CliSettings,
    /,
    topic: str,
    options: ConsumeOptions,
    form: str | None,
    **shown: bool,
) -> None:
    """Print messages of TOPIC as they arrive, until Ctrl-C.

    A message is acknowledged after it was printed. With both --count and --timeout, the command
    exits with 1 if fewer messages arrived.
    """
    sys.stdout.flush()  # output goes to the file descriptor from here on
    run(_until_abandoned(_consume(settings, topic, options, Printer(settings, form, shown))))


async def _consume(
    settings: CliSettings, topic: str, options: ConsumeOptions, printer: Printer
) -> None:
    async with connected(settings) as client:
        consumer = _consumer(client, topic, options)
        async with consumer:
            try:
                received = await _receive(consumer, options, printer)
            finally:
                if options.subscription is None:
                    await _unsubscribe(consumer)
    if options.count is not None and received < options.count:
        raise Retriable(
            f"received {plural(received, 'message')} of {options.count:,}: none arrived for "
            f"{options.idle_seconds:g} s"
        )


async def _unsubscribe(consumer: Consumer) -> None:
    """Delete the temporary subscription, which would keep messages from being deleted.

    Errors are ignored: without a broker there is nothing left to do.
    """
    with suppress(SulinaError, TimeoutError):
        async with asyncio.timeout(_UNSUBSCRIBE_SECONDS):
            await consumer.unsubscribe()


def _consumer(client: Client, topic: str, options: ConsumeOptions) -> Consumer:
    temporary = options.subscription is None
    return client.consumer(
        topic,
        options.subscription or f"cli-{uuid.uuid4().hex[:12]}",
        type=options.type,
        start=options.start,
        name=options.consumer_name,
        key_filters=options.key_filters,
        # A person may read a page for minutes: do not redeliver its messages.
        failure_policy=FailurePolicy(ack_timeout_ms=0) if temporary else None,
    )


async def _receive(consumer: Consumer, options: ConsumeOptions, printer: Printer) -> int:
    """Print and acknowledge until the count or the timeout is reached; return how many."""
    received = 0
    while options.count is None or received < options.count:
        try:
            batch = await consumer.receive_batch(options.idle_seconds)
        except TimeoutError:
            break
        left = len(batch) if options.count is None else options.count - received
        received += await _print(consumer, batch, left, options, printer)
    return received


async def _print(
    consumer: Consumer, batch: Batch, left: int, options: ConsumeOptions, printer: Printer
) -> int:
    if left >= len(batch):
        await write(1, printer(batch))
        if not options.no_ack:
            await consumer.ack(batch)
        return len(batch)
    messages = list(batch)[:left]
    await write(1, printer(messages))
    if not options.no_ack:
        for message in messages:
            await consumer.ack(message)
    return left


async def _until_abandoned(work: Coroutine[Any, Any, None]) -> None:
    """Do the work; raise ``BrokenPipeError`` when the reader of standard output has gone.

    A failing write would show it too, but on a quiet topic the next write may be hours away.
    """
    if not is_pipe(1):
        await work
        return
    task = asyncio.current_task()
    assert task is not None
    watch = asyncio.create_task(abandoned(1))
    watch.add_done_callback(lambda watch: None if watch.cancelled() else task.cancel())
    try:
        await work
    except asyncio.CancelledError:
        if watch.done():
            raise BrokenPipeError from None
        raise
    finally:
        watch.cancel()
