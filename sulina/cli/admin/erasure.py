"""``sulina topic erase``: erase records wherever a topic's records are."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import columns, confirm, echo, moment, plural, show_rows, write_json
from sulina.cli.params import topic_name, yes_option
from sulina.cli.progress import Progress
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import Refused, Retriable, UnknownOutcome
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina import Client
    from sulina.operations.ledgers import TopicErasure

_LOOK_SECONDS: Final = 0.2


@click.command(
    "erase",
    cls=CliCommand,
    examples=[
        "sulina topic erase /default/orders --key customer-7",
        "sulina topic erase /default/orders --key customer-7 --key customer-8 --yes --json",
        "sulina topic erase /default/orders --status",
        "sulina topic erase /default/orders --cancel 3",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--key", "keys", multiple=True, help="A key, as text; may be repeated.")
@click.option("--status", is_flag=True, help="Show the erasures under way and the latest others.")
@click.option(
    "--cancel", type=click.IntRange(1), metavar="ID", help="Cancel an erasure, of all partitions."
)
@click.option("--no-wait", is_flag=True, help="Return when the request is stored.")
@yes_option
def erase(
    settings: CliSettings,
    name: str,
    keys: tuple[str, ...],
    status: bool,
    cancel: int | None,
    no_wait: bool,
    yes: bool,
) -> None:
    """Erase all messages with a key from a topic, for good.

    Offsets stay: in place of each message is an empty one without key, whose attribute
    sulina.erased has the time. Objects that had the key are replaced; the answer has a digest of
    all that stayed, the same before and after, and says when the replaced objects are deleted. Only
    SHA-256 digests of the keys are sent and recorded.

    Brokers keep the request and finish it, whatever happens to this command or to them; --status
    shows how far it is.
    """
    if sum(map(bool, (keys, status, cancel))) != 1:
        raise click.UsageError("give --key, --status or --cancel, and only one of them")
    if status:
        _show(settings, run(_known(settings, name)))
        return
    if cancel:
        confirm(settings, f"cancel erasure {cancel} of {name}?", yes=yes)
        _show(settings, run(_cancel(settings, name, cancel)))
        return
    confirm(settings, f"erase {plural(len(keys), 'key')} from {name} for good?", yes=yes)
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    done = run(_erase(settings, name, digests, wait=not no_wait))
    if no_wait:
        _show(settings, done)
    elif settings.json:
        write_json([plain(each) for each in done])
    else:
        for each in done:
            _tell(each)


def _tell(each: TopicErasure) -> None:
    echo(f"erased {plural(each.erased, 'message')} of {each.topic} below {each.until_offset:,}")
    for part in each.objects:
        span = f"{part.first_offset:,} to {part.last_offset:,}"
        echo(f"  offsets {span}: {part.erased:,} erased, the others have digest {part.others}")
    echo(f"  proof {each.proof}")
    echo(f"  replaced and removed objects are deleted at {moment(each.gone_us)}")


def _show(settings: CliSettings, known: list[TopicErasure]) -> None:
    show_rows(
        settings,
        known,
        columns("topic", "id", "state", "began", "searched", "erased", "objects_left", "gone")
        | {"problem": "problem"},
        nothing="no erasures",
        readable=lambda each: {
            "began": moment(each.began_us),
            "searched": f"{each.searched_offset:,} of {each.until_offset:,}",
            "gone": moment(each.gone_us) if each.gone_us else "",
        },
    )


async def _parts(client: Client, name: str) -> list[str]:
    return [part for part, _ in (await client.topic(name)).parts]


async def _known(settings: CliSettings, name: str) -> list[TopicErasure]:
    async with connected(settings) as client:
        parts = await _parts(client, name)
        return [each for part in parts for each in await client.admin.ledgers.erasures(part)]


async def _cancel(settings: CliSettings, name: str, number: int) -> list[TopicErasure]:
    async with connected(settings) as client:
        parts = await _parts(client, name)
        return [await client.admin.ledgers.cancel_erasure(part, number) for part in parts]


async def _erase(
    settings: CliSettings, name: str, digests: tuple[str, ...], *, wait: bool
) -> list[TopicErasure]:
    async with connected(settings) as client:
        parts = await _parts(client, name)
        asked = [await client.admin.ledgers.erase(part, key_digests=digests) for part in parts]
        if not wait:
            return asked
        with Progress(settings, f"erasing from {name}", None) as progress:
            return [await wait_erased(client, each, progress) for each in asked]


async def wait_erased(client: Client, asked: TopicErasure, progress: Progress) -> TopicErasure:
    """Wait until a request has ended. Raises ``Refused`` if it failed or was cancelled."""
    now = asked
    while not now.state.ended:
        what = f"{now.topic}: {now.state}" + (f" ({now.problem})" if now.problem else "")
        progress.show(now.searched_offset, what, total=now.until_offset or None)
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            known = await client.admin.ledgers.erasures(asked.topic)
        except (Retriable, UnknownOutcome):
            continue  # the topic moves; its next owner goes on
        now = next((each for each in known if each.id == asked.id), now)
    if now.state != "done":
        raise Refused(f"erasing from {now.topic} ended: {now.state}. {now.problem}".rstrip())
    return now
