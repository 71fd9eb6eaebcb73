"""``sulina ledger``: the ledgers of a topic, and their objects in the object store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliGroup
from sulina.cli.failures import ExitCode
from sulina.cli.output import (
    columns,
    echo,
    moment,
    plural,
    print_fields,
    say,
    show_rows,
    shown_as_json,
    size,
    write_json,
)
from sulina.cli.params import NUMBER, POSITIVE, topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import NotFound, Retriable, SulinaError, UnknownOutcome
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sulina import Client
    from sulina.operations.ledgers import LedgerRow, Offloading, Rewriting

_LOOK_SECONDS: Final = 0.2
_COLUMNS: Final = columns(
    "topic",
    "ledger",
    "state",
    "where",
    "first_offset",
    "last_offset",
    "records",
    "bytes",
    "object_bytes",
)


@click.group(cls=CliGroup)
def ledger() -> None:
    """List the ledgers of topics, copy them to the object store, and verify the copies."""


@ledger.command(
    "list",
    examples=["sulina ledger list /default/orders", "sulina ledger list /default/orders --json"],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
def list_(settings: CliSettings, name: str) -> None:
    """List the ledgers of a topic and its partitions, in order.

    A ledger's records are on storage nodes, in an object of the object store, or in both.
    """
    rows = ask(settings, lambda admin: admin.ledgers.list(name))
    show_rows(settings, rows, _COLUMNS, nothing=f"{name} has no ledgers yet")


@ledger.command("show", examples=["sulina ledger show /default/orders 12"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.argument("number", metavar="LEDGER", type=NUMBER)
def show(settings: CliSettings, name: str, number: int) -> None:
    """Show one ledger and its object."""
    rows = ask(settings, lambda admin: admin.ledgers.list(name))
    found = next((row for row in rows if row.ledger == number), None)
    if found is None:
        raise NotFound(f"{name} has no ledger {number}: `sulina ledger list {name}` lists them")
    if shown_as_json(settings, found):
        return
    times = {"first_time_us": found.first_time_us, "last_time_us": found.last_time_us}
    shown = {field: value for field, value in plain(found).items() if field not in times}
    shown["published"] = " to ".join(moment(time) for time in times.values() if time)
    print_fields({field: value for field, value in shown.items() if value not in (None, "")})


@ledger.command(
    "offload",
    examples=[
        "sulina ledger offload /default/orders",
        "sulina ledger offload /default/orders --wait",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    "--wait", is_flag=True, help="Wait until everything published so far is in the object store."
)
@click.option(
    "--within",
    "seconds",
    type=POSITIVE,
    default=600.0,
    show_default=True,
    help="With --wait, the maximum time to wait, in seconds.",
)
def offload(settings: CliSettings, name: str, wait: bool, seconds: float) -> None:
    """Close the ledger being written, and copy all ledgers to the object store now.

    Brokers do so by themselves after a while: see --tier-after of `sulina up`.
    """
    done = run(_offload(settings, name, wait, seconds))
    what = f"{plural(done.ledgers, 'ledger')} of {name} ({size(done.bytes)})"
    doing = "in the object store" if wait else "being copied to the object store"
    say(settings, f"{what} {'is' if done.ledgers == 1 else 'are'} {doing}", done)


@ledger.command(
    "rewrite",
    examples=[
        "sulina ledger rewrite /default/orders",
        "sulina ledger rewrite /default/orders --wait",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--wait", is_flag=True, help="Wait until all objects are rewritten.")
@click.option(
    "--within",
    "seconds",
    type=POSITIVE,
    default=3600.0,
    show_default=True,
    help="With --wait, the maximum time to wait, in seconds.",
)
def rewrite(settings: CliSettings, name: str, wait: bool, seconds: float) -> None:
    """Rewrite objects that lack the typed columns of the topic's schema.

    For topics that got a schema, or a version of it, after their objects were written. Brokers
    replace the objects in the background; repeat it to see how many are left.
    """
    left = run(_rewrite(settings, name, wait, seconds))
    what = f"{plural(left.ledgers, 'object')} of {name} ({size(left.bytes)})"
    if not left.ledgers:
        say(settings, f"all objects of {name} have the typed columns of its schema", left)
    else:
        say(settings, f"{what} {'is' if left.ledgers == 1 else 'are'} being rewritten", left)


async def _rewrite(settings: CliSettings, name: str, wait: bool, seconds: float) -> Rewriting:
    async with connected(settings) as client:
        left = begun = await client.admin.ledgers.rewrite(name)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        with Progress(settings, f"rewriting {name}", begun.bytes) as progress:
            while wait and left.ledgers:
                if loop.time() > end:
                    raise Retriable(
                        f"{plural(left.ledgers, 'object')} of {name} were not rewritten within "
                        f"{seconds:g} s: it goes on, and the brokers' logs say what failed"
                    )
                note = f"{plural(left.ledgers, 'object')} left, {size(left.bytes)}"
                progress.show(max(0, begun.bytes - left.bytes), note)
                await asyncio.sleep(_LOOK_SECONDS)
                with suppress(Retriable, UnknownOutcome):
                    # Asked again, so that a new owner of the topic continues.
                    left = await client.admin.ledgers.rewrite(name)
        return left


async def _offload(settings: CliSettings, name: str, wait: bool, seconds: float) -> Offloading:
    async with connected(settings) as client:
        begun = await client.admin.ledgers.offload(name)
        if not wait:
            return begun
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        with Progress(settings, f"offloading {name}", begun.bytes) as progress:
            while (left := await _left(client, name, begun.until)) != []:
                if loop.time() > end:
                    raise Retriable(
                        f"not all ledgers of {name} were copied within {seconds:g} s: "
                        f"`sulina ledger list {name}` shows which, and the brokers' logs say why"
                    )
                if left is not None:
                    missing = sum(row.bytes for row in left)
                    note = f"{plural(len(left), 'ledger')} left, {size(missing)}"
                    progress.show(max(0, begun.bytes - missing), note)
                await asyncio.sleep(_LOOK_SECONDS)
        return begun


async def _left(client: Client, name: str, until: Mapping[str, int]) -> list[LedgerRow] | None:
    """The ledgers that are not in the object store yet; None if the broker did not answer."""
    try:
        rows = await client.admin.ledgers.list(name)
    except (Retriable, UnknownOutcome):
        return None
    return [
        row
        for row in rows
        if row.object_bytes is None
        and row.records != 0
        and row.first_offset < until.get(row.topic, 0)
    ]


@ledger.command(
    "verify",
    examples=["sulina ledger verify /default/orders", "sulina ledger verify /default/orders 12 13"],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.argument("numbers", metavar="[LEDGER]...", nargs=-1, type=NUMBER)
def verify(settings: CliSettings, name: str, numbers: tuple[int, ...]) -> None:
    """Read objects back, and compare their records with the recorded digest.

    Exits with 1 if an object is damaged or missing. Large objects may need a longer --timeout.
    """
    rows = run(_verify(settings, name, numbers))
    bad = [(row, problem) for row, problem in rows if problem]
    if settings.json:
        write_json([{**plain(row), "problem": problem} for row, problem in rows])
    else:
        for row, problem in bad:
            echo(f"ledger {row.ledger} of {row.topic}: {problem}", err=True)
        fine = len(rows) - len(bad)
        records = sum(row.records or 0 for row, problem in rows if not problem)
        echo(f"verified {plural(fine, 'object')} with {plural(records, 'record')}")
    if bad:
        click.get_current_context().exit(ExitCode.FAILED)


async def _verify(
    settings: CliSettings, name: str, numbers: Sequence[int]
) -> list[tuple[LedgerRow, str | None]]:
    """The ledgers that have an object, each with what is wrong with it."""
    async with connected(settings) as client:
        rows = await client.admin.ledgers.list(name)
        unknown = set(numbers) - {row.ledger for row in rows}
        if unknown:
            raise NotFound(
                f"{name} has no ledger {min(unknown)}: `sulina ledger list {name}` lists them"
            )
        wanted = [
            row
            for row in rows
            if row.object_bytes is not None and (not numbers or row.ledger in numbers)
        ]
        total = sum(row.object_bytes or 0 for row in wanted)
        done = 0
        verified = []
        with Progress(settings, f"verifying {name}", total) as progress:
            for row in wanted:
                progress.show(done, f"ledger {row.ledger}")
                verified.append((row, await _problem(client, row)))
                done += row.object_bytes or 0
        return verified


async def _problem(client: Client, row: LedgerRow) -> str | None:
    try:
        await client.admin.ledgers.verify(row.topic, row.ledger)
    except SulinaError as error:
        return str(error)
    return None
