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
from sulina.cli.output import plural
from sulina.cli.params import START_METAVAR, TYPE, position, topic_name
from sulina.cli.pipes import abandoned, is_pipe, write
from sulina.cli.running import connected, run
from sulina.cli.settings import COMMON, CliSettings
from sulina.errors import Retriable, SulinaError
from sulina.model import FailurePolicy, Start

if TYPE_CHECKING:
    from sulina import Batch, Client, Consumer

_GOODBYE: Final = 2.0
"""Seconds for the broker to delete a subscription of ours, while a person waits for the prompt."""


@click.command(
    cls=CliCommand,
    # Its own --timeout is for messages; the one for answers can stand before the command.
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
@click.option(
    "--subscription",
    metavar="NAME",
    help="Go on where this subscription stands; it is made if it is new. Without it the command "
    "uses one of its own, and deletes it at the end.",
)
@click.option(
    "--type", "type_", type=TYPE, default="exclusive", show_default=True, help="How it is shared."
)
@click.option(
    "--from",
    "start",
    type=position,
    default="latest",
    metavar=START_METAVAR,
    show_default=True,
    help="Where a new subscription begins.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option(
    "--timeout",
    "patience",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End when no message has come for so long.",
)
@click.option("--no-ack", is_flag=True, help="Acknowledge nothing: all of it will come again.")
@click.option("--key-filter", "key_filters", multiple=True, help="Only keys like this pattern.")
@click.option("--consumer-name", metavar="NAME", help="How the broker shall list this consumer.")
@printing_options
@click.pass_obj
def consume(
    settings: CliSettings,
    /,
    topic: str,
    subscription: str | None,
    type_: str,
    start: Start,
    count: int | None,
    patience: float | None,
    no_ack: bool,
    key_filters: tuple[str, ...],
    consumer_name: str | None,
    form: str | None,
    **shown: bool,
) -> None:
    """Print the messages of TOPIC as they come, until Ctrl-C.

    A message is acknowledged after it was printed. With --count and --timeout together the
    command fails, with exit code 1, if fewer messages came.
    """
    wish = _ConsumeOptions(
        topic,
        subscription,
        type_,
        start,
        count,
        patience,
        ack=not no_ack,
        key_filters=key_filters,
        name=consumer_name,
    )
    sys.stdout.flush()  # from here on we write to the descriptor itself
    run(_until_abandoned(_consume(settings, wish, Printer(settings, form, shown))))


@dataclass(frozen=True, slots=True)
class _ConsumeOptions:
    """What to receive."""

    topic: str
    subscription: str | None
    type: str
    start: Start
    count: int | None
    patience: float | None
    ack: bool
    key_filters: tuple[str, ...]
    name: str | None


async def _consume(settings: CliSettings, wish: _ConsumeOptions, printer: Printer) -> None:
    async with connected(settings) as client:
        consumer = _consumer(client, wish)
        async with consumer:
            try:
                received = await _receive(consumer, wish, printer)
            finally:
                if wish.subscription is None:
                    await _forget(consumer)
    if wish.count is not None and received < wish.count:
        raise Retriable(
            f"{plural(received, 'message')} of {wish.count:,} came before {wish.patience:g} s "
            "passed without one"
        )


async def _forget(consumer: Consumer) -> None:
    """Delete the subscription that nobody else knows: it would only hold messages back.

    If the broker is gone, so that this fails, there is nothing more that we could do.
    """
    with suppress(SulinaError, TimeoutError):
        async with asyncio.timeout(_GOODBYE):
            await consumer.unsubscribe()


def _consumer(client: Client, wish: _ConsumeOptions) -> Consumer:
    passing = wish.subscription is None
    return client.consumer(
        wish.topic,
        wish.subscription or f"cli-{uuid.uuid4().hex[:12]}",
        type=wish.type,
        start=wish.start,
        name=wish.name,
        key_filters=wish.key_filters,
        # A person may look at a page for minutes: that is no reason to send it again.
        failure_policy=FailurePolicy(ack_timeout_ms=0) if passing else None,
    )


async def _receive(consumer: Consumer, wish: _ConsumeOptions, printer: Printer) -> int:
    """Print and acknowledge until there were enough, or no more came; returns how many."""
    received = 0
    while wish.count is None or received < wish.count:
        try:
            batch = await consumer.receive_batch(wish.patience)
        except TimeoutError:
            break
        left = len(batch) if wish.count is None else wish.count - received
        received += await _print(consumer, batch, left, wish, printer)
    return received


async def _print(
    consumer: Consumer, batch: Batch, left: int, wish: _ConsumeOptions, printer: Printer
) -> int:
    if left >= len(batch):
        await write(1, printer(batch))
        if wish.ack:
            await consumer.ack(batch)
        return len(batch)
    messages = list(batch)[:left]
    await write(1, printer(messages))
    if wish.ack:
        for message in messages:
            await consumer.ack(message)
    return left


async def _until_abandoned(work: Coroutine[Any, Any, None]) -> None:
    """Do the work; end it with ``BrokenPipeError`` when nobody reads our output any more.

    A write would tell as well, but on a quiet topic that may be hours away.
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
