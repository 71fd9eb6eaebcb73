"""``sulina security audit``: reads the audit trail, and verifies it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.audit import TOPIC, AuditEvent, AuditOutcome, ChainVerifier
from sulina.cli.command import CliCommand
from sulina.cli.failures import ExitCode
from sulina.cli.output import columns, moment, plural, print_table, write_json
from sulina.cli.params import MemberOf, duration
from sulina.cli.params import moment as point_in_time
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.audit import AuditPage, AuditRow
    from sulina.operations.client import AdminClient

_PAGE: Final = 1_000
_FOLLOW_SECONDS: Final = 1.0
_COLUMNS: Final = columns(
    "time", "event", "outcome", "principal", "address", "door", "operation", "resource", "detail"
)


def _time(value: str) -> int:
    """A time, or a duration before now, in microseconds."""
    try:
        begin = point_in_time(value)
    except click.BadParameter:
        begin = datetime.now().astimezone() - duration(value)
    return max(round(begin.timestamp() * 1_000_000), 0)


@click.command(
    "audit",
    cls=CliCommand,
    examples=[
        "sulina security audit",
        "sulina security audit --since 7d --principal billing --outcome refused",
        "sulina security audit --operation topic.delete --json",
        "sulina security audit --follow",
        "sulina security audit --verify",
    ],
)
@click.option("--principal", metavar="NAME", help="Only records of this principal.")
@click.option("--operation", metavar="NAME", help="Only this operation, such as topic.delete.")
@click.option("--resource", metavar="NAME", help="Only records about this topic, token, role, ...")
@click.option("--event", type=MemberOf(AuditEvent), help="Only events of this type.")
@click.option("--outcome", type=MemberOf(AuditOutcome), help="Only this outcome.")
@click.option(
    "--since",
    type=_time,
    metavar="TIME",
    help="Records from then on: a time such as 2026-05-01T12:30:00Z, or a duration before now such "
    "as 7d. [default: 1d]",
)
@click.option("--until", type=_time, metavar="TIME", help="Records before then.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="The newest records, at most this many.",
)
@click.option("--follow", is_flag=True, help="Print further records as they are written.")
@click.option(
    "--verify",
    is_flag=True,
    help="Check the whole trail instead: no record is missing, altered or out of order.",
)
def audit(
    settings: CliSettings,
    /,
    since: int | None,
    until: int | None,
    limit: int,
    follow: bool,
    verify: bool,
    **filters: str | None,
) -> None:
    """Show who did what: administrative changes, sign-ins and refusals.

    Brokers record them if they were started with --auth or --audit on. Every record has the hash of
    the one before it; --verify exits with code 1 if the records do not fit together, and says
    which.
    """
    if verify:
        if follow or until is not None or since is not None or any(filters.values()):
            raise click.UsageError("--verify checks the whole trail: give no other option")
        run(_verify(settings))
        return
    if since is None:
        since = _time("1d")
    wanted = {name: value for name, value in filters.items() if value is not None}
    run(_show(settings, {**wanted, "since_us": since, "until_us": until}, limit, follow=follow))


async def _pages(
    admin: AdminClient, filters: dict[str, Any], offset: int | None
) -> AsyncIterator[AuditPage]:
    while True:
        page = await admin.audit.list(offset=offset, limit=_PAGE, **filters)
        yield page
        if page.at_end:
            return
        offset = page.next_offset


async def _show(
    settings: CliSettings, filters: dict[str, Any], limit: int, *, follow: bool
) -> None:
    import asyncio

    async with connected(settings) as client:
        newest: deque[AuditRow] = deque(maxlen=limit)
        following = 0
        async for page in _pages(client.admin, filters, None):
            newest.extend(page.records)
            following = page.next_offset
        _print(settings, list(newest))
        while follow:
            await asyncio.sleep(_FOLLOW_SECONDS)
            async for page in _pages(client.admin, filters, following):
                if page.records:
                    _print(settings, list(page.records))
                following = page.next_offset


def _print(settings: CliSettings, rows: list[AuditRow]) -> None:
    if settings.json:
        for row in rows:
            write_json(row)
    elif rows:
        print_table([_shown(row) for row in rows], _COLUMNS)
    else:
        click.echo("there are no such records")


def _shown(row: AuditRow) -> dict[str, Any]:
    if row.record is None:
        return {"detail": f"the record at offset {row.offset} can't be read"}
    found = plain(row.record)
    times = "" if row.record.count == 1 else f" ({row.record.count:,} times)"
    cells = {name: _printable(str(found.get(name, ""))) for name in _COLUMNS}
    return {**cells, "time": moment(row.record.time_us), "detail": cells["detail"] + times}


def _printable(text: str) -> str:
    """Names come from callers: control characters must not reach the terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


async def _verify(settings: CliSettings) -> None:
    verifier: ChainVerifier | None = None
    first = 0
    async with connected(settings) as client:
        async for page in _pages(client.admin, {}, 0):
            if verifier is None:
                first = page.records[0].offset if page.records else 0
                verifier = ChainVerifier(page.heads, first=first, starts=page.starts)
            for row in page.records:
                verifier.add(row.offset, row.record)
    assert verifier is not None
    verifier.finish()
    if settings.json:
        write_json(
            {
                "records": verifier.records,
                "first_offset": first,
                "anchors": verifier.anchors,
                "chains": verifier.ends,
                "problems": verifier.problems,
            }
        )
    else:
        for problem in verifier.problems:
            click.echo(_printable(problem.text))
        if first:
            click.echo(f"records before offset {first} are no longer stored in {TOPIC}")
        for each in verifier.anchors:
            click.echo(
                f"the chain of {_printable(each.broker)} is anchored at its record "
                f"{each.sequence}, which is gone; it had the hash {each.hash}"
            )
        chains = plural(len(verifier.ends), "chain")
        click.echo(
            f"{plural(verifier.records, 'record')} in {chains}: "
            f"{plural(len(verifier.problems), 'problem') if verifier.problems else 'intact'}"
        )
    if verifier.problems:
        click.get_current_context().exit(ExitCode.FAILED)
