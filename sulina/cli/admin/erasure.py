"""``sulina topic erase``: erase records wherever a topic's records are."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import columns, confirm, echo, moment, plural, say, show_rows, write_json
from sulina.cli.params import topic_name, yes_option
from sulina.cli.progress import Progress
from sulina.cli.running import connected, make_client, run
from sulina.cli.settings import CliSettings
from sulina.copies.erasing import wait_erased
from sulina.errors import Refused
from sulina.names import TopicName
from sulina.operations.json_types import plain
from sulina.runtime.real_clock import RealClock

if TYPE_CHECKING:
    from sulina import Client
    from sulina.cli.admin.erasure_search import Found
    from sulina.operations.ledgers import TopicErasure


@click.command(
    "erase",
    cls=CliCommand,
    examples=[
        "sulina topic erase /default/orders --key customer-7",
        "sulina topic erase /default/orders --where \"customer = 'Ann' AND amount > 5\" --dry-run",
        "sulina topic erase /default/orders --where \"attributes['user'] = 'ann'\" --yes --json",
        "sulina topic erase /default/orders --status",
        "sulina topic erase /default/orders --cancel 3",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--key", "keys", multiple=True, help="A key, as text; may be repeated.")
@click.option(
    "--where",
    default="",
    metavar="CONDITION",
    help="A condition in SQL, over the columns of `sulina sql` and the fields of the topic's "
    "schema. It is evaluated here: brokers get offsets only.",
)
@click.option(
    "--unjudged",
    type=click.Choice(("refuse", "keep", "erase")),
    default="refuse",
    show_default=True,
    help="With --where: what to do if payloads do not fit the schema, so that the condition can't "
    "be judged.",
)
@click.option("--dry-run", is_flag=True, help="With --where: only count.")
@click.option(
    "--lake",
    envvar="SULINA_TIER",
    default="",
    metavar="URL",
    help="With --where: read history from here instead of through the brokers, as `sulina sql` "
    "does. [env: SULINA_TIER]",
)
@click.option("--status", is_flag=True, help="Show the erasures under way and the latest others.")
@click.option(
    "--cancel", type=click.IntRange(1), metavar="ID", help="Cancel an erasure, of all partitions."
)
@click.option("--no-wait", is_flag=True, help="With --key: return when the request is stored.")
@yes_option
def erase(
    settings: CliSettings,
    name: str,
    keys: tuple[str, ...],
    where: str,
    unjudged: str,
    dry_run: bool,
    lake: str,
    status: bool,
    cancel: int | None,
    no_wait: bool,
    yes: bool,
) -> None:
    """Erase messages from a topic, for good: those of a key, or for which a condition holds.

    Offsets stay: in place of each message is an empty one without key, whose attribute
    sulina.erased has the time. Objects that had such messages are replaced; the answer has a digest
    of all that stayed, the same before and after, and says when the replaced objects are deleted.
    Only SHA-256 digests of keys, or offsets, are sent and recorded.

    Brokers keep the request and finish it, whatever happens to this command or to them; --status
    shows how far it is.
    """
    if sum(map(bool, (keys, where, status, cancel))) != 1:
        raise click.UsageError("give one of --key, --where, --status and --cancel")
    if status:
        _show(settings, run(_known(settings, name)))
    elif cancel:
        confirm(settings, f"cancel erasure {cancel} of {name}?", yes=yes)
        _show(settings, run(_cancel(settings, name, cancel)))
    elif where:
        found = _search(settings, name, where, unjudged, lake)
        if dry_run:
            said = {"topic": name, "messages": found.messages, "unjudged": found.unjudged}
            say(settings, _counted(found), said)
            return
        if found.unjudged and unjudged == "refuse":
            raise Refused(
                f"{plural(found.unjudged, 'message')} of {name} can't be judged, because the "
                f"payloads do not fit the topic's schema: look at them (sulina sql 'SELECT * FROM "
                f'"{name}" WHERE value_error IS NOT NULL\'), then choose --unjudged keep or '
                "--unjudged erase. Nothing was erased"
            )
        if not settings.json:
            echo(_counted(found), err=True)
        confirm(settings, f"erase {plural(found.messages, 'message')} of {name}?", yes=yes)
        _tell_all(settings, run(_erase_found(settings, name, found)))
    else:
        confirm(settings, f"erase {plural(len(keys), 'key')} from {name} for good?", yes=yes)
        digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
        done = run(_erase(settings, name, digests, wait=not no_wait))
        (_show if no_wait else _tell_all)(settings, done)


def _search(settings: CliSettings, name: str, where: str, unjudged: str, lake: str) -> Found:
    from sulina.cli.admin.erasure_search import search
    from sulina.cli.sql import open_lake
    from sulina.live.connection import BlockingConnection
    from sulina.sql.session import SqlSession  # tells if DuckDB is missing

    with (
        BlockingConnection(make_client(settings)) as connection,
        SqlSession(connection, open_lake(lake)) as session,
    ):
        return search(session, TopicName.parse(name), where, unjudged_too=unjudged == "erase")


def _counted(found: Found) -> str:
    return (
        f"{plural(found.messages, 'message')} to erase, {found.unjudged:,} that can't be judged "
        "(their payloads do not fit the schema)"
    )


def _tell_all(settings: CliSettings, done: list[TopicErasure]) -> None:
    if settings.json:
        write_json([plain(each) for each in done])
        return
    for each in done:
        tell(each)


def tell(each: TopicErasure) -> None:
    """Print a finished erasure, with its proof and when the last copy is gone."""
    echo(f"erased {plural(each.erased, 'message')} of {each.topic} below {each.until_offset:,}")
    for part in each.objects:
        span = f"{part.first_offset:,} to {part.last_offset:,}"
        echo(f"  offsets {span}: {part.erased:,} erased, the others have digest {part.others}")
    echo(f"  proof {each.proof}")
    echo(f"  replaced and removed objects are deleted at {moment(each.gone_us)}")
    if each.kept:
        echo(f"  {each.kept}")
    if each.versions_gone_us > each.gone_us:
        echo(f"  versions of them are gone at {moment(each.versions_gone_us)}")
    echo("  docs/operations.md#erase-a-key lists every other copy, such as backups of disks")


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
            return [
                await wait_erased(client.admin, each, RealClock(), _shown(progress))
                for each in asked
            ]


async def _erase_found(settings: CliSettings, name: str, found: Found) -> list[TopicErasure]:
    """One request after the other, so that a run that is interrupted leaves few behind."""
    async with connected(settings) as client:
        parts = await _parts(client, name)
        done: list[TopicErasure] = []
        with Progress(settings, f"erasing from {name}", None) as progress:
            for partition, offsets in found.requests():
                asked = await client.admin.ledgers.erase(parts[partition], offsets=offsets)
                done.append(await wait_erased(client.admin, asked, RealClock(), _shown(progress)))
        return done


def _shown(progress: Progress) -> Callable[[TopicErasure], None]:
    def show(now: TopicErasure) -> None:
        what = f"{now.topic}: {now.state}" + (f" ({now.problem})" if now.problem else "")
        progress.show(now.searched_offset, what, total=now.until_offset or None)

    return show
