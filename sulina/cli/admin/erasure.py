"""``sulina topic erase``: erase the records of keys wherever a topic's records are."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import confirm, echo, moment, plural, write_json
from sulina.cli.params import topic_name, yes_option
from sulina.cli.progress import Progress
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import NotFound, Refused, Retriable, UnknownOutcome
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
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    "--key", "keys", multiple=True, required=True, help="A key, as text; may be repeated."
)
@yes_option
def erase(settings: CliSettings, name: str, keys: tuple[str, ...], yes: bool) -> None:
    """Erase all messages with a key from a topic, for good.

    Offsets stay: in place of each message is an empty one without key, whose attribute
    sulina.erased has the time. Objects that had the key are replaced; the answer has a digest of
    all that stayed, the same before and after, and says when the replaced objects are deleted. Only
    SHA-256 digests of the keys are sent and recorded. Run it again after an interruption.
    """
    confirm(settings, f"erase {plural(len(keys), 'key')} from {name} for good?", yes=yes)
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    done = run(_erase(settings, name, digests))
    if settings.json:
        write_json([plain(each) for each in done])
        return
    for each in done:
        echo(f"erased {plural(each.erased, 'message')} of {each.topic} below {each.until_offset:,}")
        for part in each.objects:
            span = f"{part.first_offset:,} to {part.last_offset:,}"
            echo(f"  offsets {span}: {part.erased:,} erased, the others have digest {part.others}")
        echo(f"  replaced and removed objects are deleted at {moment(each.gone_us)}")


async def _erase(settings: CliSettings, name: str, digests: tuple[str, ...]) -> list[TopicErasure]:
    async with connected(settings) as client:
        info = await client.topic(name)
        found: list[TopicErasure] = []
        with Progress(settings, f"erasing from {name}", None) as progress:
            for part, _ in info.parts:
                found.append(await _erase_part(client, part, digests, progress))
        return found


async def _erase_part(
    client: Client, part: str, digests: tuple[str, ...], progress: Progress
) -> TopicErasure:
    now = await client.admin.ledgers.erase(part, key_digests=digests)
    while now.state not in ("done", "failed"):
        progress.show(now.searched_offset, f"{part}: {now.state}", total=now.until_offset or None)
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            now = await client.admin.ledgers.erasure(part)
        except (Retriable, UnknownOutcome):
            continue
        except NotFound:  # the topic moved: its new owner starts again
            now = await client.admin.ledgers.erase(part, key_digests=digests)
    if now.state == "failed":
        raise Refused(f"erasing from {part} failed: {now.problem}")
    return now
