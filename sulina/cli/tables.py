"""``sulina table``: topics as Iceberg tables, over the objects of the lake."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.command import JSON_ONLY, CliGroup
from sulina.cli.failures import ExitCode
from sulina.cli.output import (
    columns,
    confirm,
    echo,
    moment,
    plural,
    print_fields,
    print_table,
    say,
    show_rows,
    shown_as_json,
    size,
)
from sulina.cli.params import COUNT, topic_name, yes_option
from sulina.cli.result_rows import cell
from sulina.cli.settings import CliSettings
from sulina.errors import CorruptEntry, NotFound, Refused, Unavailable
from sulina.names import TopicName
from sulina.operations.json_types import plain
from sulina.runtime.real_clock import RealClock

if TYPE_CHECKING:
    from sulina.tables.committing import Committed
    from sulina.tables.planning import Gap
    from sulina.tables.tables import Tables

_COLUMNS: Final = columns(
    *("topic", "table", "records", "rejected", "objects", "bytes", "newest", "committed"),
    "snapshots",
)
_DAY_US: Final = 86_400_000_000


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--database",
            envvar="SULINA_DATABASE",
            default="sulina",
            show_default=True,
            help="Database (namespace) of the catalog.",
        ),
        click.option(
            "--catalog",
            envvar="SULINA_CATALOG",
            default="",
            metavar="URL",
            help="sqlite:///folder/catalog.db, glue:region, or the URL of a REST catalog. "
            "[env: SULINA_CATALOG]",
        ),
        click.option(
            "--lake",
            envvar="SULINA_TIER",
            default="",
            metavar="URL",
            help="What --tier of the brokers is: a folder, or s3://bucket/prefix. "
            "[env: SULINA_TIER]",
        ),
    ):
        command = option(command)
    return command


def _tables(lake: str, catalog: str, database: str, *, create: bool = False) -> Tables:
    from sulina.tables.catalogs import open_catalog  # tells if pyiceberg is missing
    from sulina.tables.objects import Lake, LakePlace
    from sulina.tables.tables import Tables

    for value, option, variable in (
        (lake, "--lake", "SULINA_TIER"),
        (catalog, "--catalog", "SULINA_CATALOG"),
    ):
        if not value:
            raise click.UsageError(f"give {option}, or set {variable}")
    place = LakePlace.parse(lake)
    return Tables(Lake(place), open_catalog(catalog, place, create=create), database)


@click.group(cls=CliGroup)
def table() -> None:
    """Show topics as Iceberg tables, which Spark, Athena, Trino, DuckDB and polars read.

    A table is metadata only: its files are the objects that replays read, too.
    """


@table.command(
    "list",
    common=JSON_ONLY,
    examples=["sulina table list --lake ./lake --catalog sqlite:///lake/catalog.db"],
)
@_place_options
def list_(settings: CliSettings, lake: str, catalog: str, database: str) -> None:
    """List the tables of topics in the catalog."""
    rows = _tables(lake, catalog, database).list(must_exist=True)
    show_rows(
        settings,
        rows,
        _COLUMNS,
        nothing="there are no tables: `sulina table backfill --all` makes them",
        readable=lambda row: {
            "bytes": size(row.bytes),
            "newest": moment(row.newest_us) if row.newest_us else "none",
            "committed": moment(row.committed_us) if row.committed_us else "never",
        },
    )


@table.command("show", common=JSON_ONLY, examples=["sulina table show /default/orders"])
@click.argument("topic", type=topic_name)
@_place_options
def show(settings: CliSettings, topic: str, lake: str, catalog: str, database: str) -> None:
    """Show one table: how far it got in each partition, and where its metadata is.

    Also how many records are in objects from before the newest typed columns: there these columns
    are null, also where the schema has a default.
    """
    name, tables = TopicName.parse(topic), _tables(lake, catalog, database)
    found = tables.describe(name)
    fields = plain(found)
    if shown_as_json(settings, fields):
        return
    if found.lacking_columns:
        fields["lacking_columns"] = _lacking(name, found.lacking_columns)
    fields["committed"] = moment(fields.pop("committed_us"))
    fields["newest"] = moment(fields.pop("newest_us"))
    fields["bytes"] = size(found.bytes)
    fields["partitions"] = {
        str(part): f"offsets {each.first} to {each.next - 1}"
        for part, each in found.partitions.items()
    }
    print_fields(fields)


@table.command(
    "backfill",
    common=JSON_ONLY,
    examples=[
        "sulina table backfill /default/orders --lake ./lake --catalog sqlite:///lake/catalog.db",
        "sulina table backfill --all --every 60",
    ],
)
@click.argument("topics", nargs=-1, type=topic_name)
@click.option("--all", "everything", is_flag=True, help="All topics that have objects.")
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Repeat at this interval until interrupted.",
)
@_place_options
def backfill(
    settings: CliSettings,
    topics: Sequence[str],
    everything: bool,
    every: float | None,
    lake: str,
    catalog: str,
    database: str,
) -> int:
    """Bring the tables of topics up to date; create those that are missing.

    Adds each object once and in order, however often and in however many processes it runs, and
    removes what retention deleted. Exits with 1 if objects are missing in between. With --every,
    it goes on when the catalog or the store cannot be reached, or has nothing yet; with --all, when
    one table cannot be brought up to date.
    """
    if bool(topics) == everything:
        raise click.UsageError("give topics, or --all")
    names = [TopicName.parse(each) for each in topics]
    tables: Tables | None = None
    while True:
        try:
            tables = tables or _tables(lake, catalog, database, create=True)
            code = _backfill_once(settings, tables, names)
        except (NotFound, Unavailable) as error:
            if every is None:
                raise
            click.echo(f"sulina: {error}; trying again in {every:g} s", err=True)
        else:
            if every is None:
                return code
        time.sleep(every)


def _backfill_once(settings: CliSettings, tables: Tables, topics: Sequence[TopicName]) -> ExitCode:
    """Without ``topics``, all; then a table that can't be made does not hold up the others."""
    code = ExitCode.FINE
    for name in topics or tables.to_update():
        try:
            done = tables.backfill(name)
        except (CorruptEntry, NotFound, Refused) as error:
            if topics:
                raise
            click.echo(f"sulina: {name} was left out: {error}", err=True)
            code = ExitCode.FAILED
            continue
        say(settings, _sentence(name, done), {"topic": str(name), **plain(done)})
        code = max(code, _told_gaps(settings, done.gaps))
        _told_lacking(settings, tables, name, done)
    return code


def _told_lacking(settings: CliSettings, tables: Tables, topic: TopicName, done: Committed) -> None:
    """Where somebody changes the table: queries do not tell a missing column from null."""
    if done.objects and not settings.json:
        lacking = tables.describe(topic).lacking_columns
        if lacking:
            echo(f"  {_lacking(topic, lacking)}")


def _lacking(topic: TopicName, count: int) -> str:
    return (
        f"{plural(count, 'record')} {'is' if count == 1 else 'are'} in objects from before the "
        f"newest columns, which are null for them, defaults or not: "
        f"`sulina ledger rewrite {topic}` rewrites these objects"
    )


def _told_gaps(settings: CliSettings, gaps: Sequence[Gap]) -> ExitCode:
    for gap in () if settings.json else gaps:
        echo(f"  partition {gap.partition}: offsets {gap.first} to {gap.end - 1} are missing")
    return ExitCode.FAILED if gaps else ExitCode.FINE


def _sentence(topic: TopicName, done: Committed) -> str:
    if not done.objects and not done.removed_before:
        return f"{topic}: up to date"
    added = f"added {plural(done.objects, 'object')} with {plural(done.records, 'record')}"
    removed = ", removed what retention deleted" if done.removed_before else ""
    removed += f", in place of {done.exchanged} replaced ones" if done.exchanged else ""
    return f"{topic}: {added}{removed}"


@table.command(
    "rejected",
    common=JSON_ONLY,
    examples=[
        "sulina table rejected /default/orders",
        "sulina table rejected /default/orders --json",
    ],
)
@click.argument("topic", type=topic_name)
@click.option("--count", type=COUNT, default=20, show_default=True, help="How many to show.")
@_place_options
def rejected(
    settings: CliSettings, topic: str, count: int, lake: str, catalog: str, database: str
) -> None:
    """Show records whose payload does not fit the schema, with the reason.

    They are all in the table, with a null value: these are the dead letters of the lake.
    """
    total, rows = _tables(lake, catalog, database).rejected(TopicName.parse(topic), count)
    found = [
        {
            "partition": row.partition,
            "offset": row.offset,
            "publish_time": cell(row.publish_time),
            "value_error": row.value_error,
            "payload": cell(row.payload),
        }
        for row in rows
    ]
    if shown_as_json(settings, {"rejected": total, "records": found}):
        return
    if rows:
        print_table(found, columns(*found[0]))
    echo(f"{topic}: {plural(total, 'payload')} {'does' if total == 1 else 'do'} not fit the schema")


@table.command("upsert", common=JSON_ONLY, examples=["sulina table upsert /default/customers"])
@click.argument("topic", type=topic_name)
@_place_options
def upsert(settings: CliSettings, topic: str, lake: str, catalog: str, database: str) -> int:
    """Keep a table of the newest row of each key.

    Merges what is new in the topic's objects since the last time, each record once; a tombstone
    deletes a row. The table is <namespace>__<topic>__latest, and must fit into 1 GiB of memory:
    the job emr_jobs.jobs.upsert keeps larger ones. Exits with 1 if objects are missing in between.
    """
    done = _tables(lake, catalog, database, create=True).upsert(TopicName.parse(topic))
    merged = f"{done.table}: merged {plural(done.records, 'record')}, {plural(done.rows, 'row')}"
    say(settings, merged, done)
    return _told_gaps(settings, done.gaps)


@table.command("rebuild", common=JSON_ONLY, examples=["sulina table rebuild /default/orders --yes"])
@click.argument("topic", type=topic_name)
@_place_options
@yes_option
def rebuild(
    settings: CliSettings, topic: str, lake: str, catalog: str, database: str, yes: bool
) -> None:
    """Forget a table with its history, and make it anew from the objects."""
    confirm(settings, f"Forget the snapshots of the table of {topic}, and make it anew?", yes=yes)
    name, tables = TopicName.parse(topic), _tables(lake, catalog, database, create=True)
    done = tables.rebuild(name)
    say(settings, _sentence(name, done), done)
    _told_lacking(settings, tables, name, done)


@table.command(
    "expire", common=JSON_ONLY, examples=["sulina table expire /default/orders --older-than 7"]
)
@click.argument("topic", type=topic_name)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="Age of the snapshots to forget.",
)
@_place_options
def expire(
    settings: CliSettings, topic: str, older_than: float, lake: str, catalog: str, database: str
) -> None:
    """Forget old snapshots; the newest stays, and no object is deleted."""
    tables = _tables(lake, catalog, database)
    before_us = RealClock().wall_us() - round(older_than * _DAY_US)
    count = tables.expire(TopicName.parse(topic), before_us)
    say(settings, f"{topic}: forgot {plural(count, 'snapshot')}", {"expired": count})
