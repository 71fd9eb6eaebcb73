"""``sulina sql``: a query on topics, with DuckDB: history from the lake, the tail from brokers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.result_rows import FORMS, ResultPrinter
from sulina.cli.running import make_client
from sulina.cli.settings import CliSettings

if TYPE_CHECKING:
    from sulina.tables.objects import Lake

_TABLE_ROWS: Final = 1000


@click.command(
    cls=CliCommand,
    examples=[
        "sulina sql 'SELECT count(*) FROM orders'",
        "sulina sql 'SELECT value.customer, sum(value.amount) FROM billing.invoices GROUP BY 1'",
        'sulina sql \'SELECT "offset", decode(payload) FROM "/default/orders" LIMIT 5\'',
        "sulina sql 'SELECT * FROM orders WHERE publish_time > now() - INTERVAL 1 HOUR' --json",
        "sulina sql --lake s3://lake/prefix --format csv 'FROM orders WHERE value_error IS NULL'",
    ],
)
@click.argument("query")
@click.option(
    "--lake",
    envvar="SULINA_TIER",
    default="",
    metavar="URL",
    help="What --tier of the brokers is: a folder, or s3://bucket/prefix. Without it, history is "
    "read through the brokers, too, which is slower. [env: SULINA_TIER]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help=f"table shows the first {_TABLE_ROWS:,} rows; json and csv print all, json one row per "
    "line. [default: table]",
)
@click.option(
    "--memory",
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="DuckDB's memory; what does not fit goes to a temporary folder.",
)
def sql(settings: CliSettings, query: str, lake: str, form: str | None, memory: str) -> None:
    """Run QUERY (- for standard input) in DuckDB, with topics as tables.

    The topic /default/orders is the table orders, default.orders or "/default/orders"; topics of
    other namespaces are namespace.topic. A query sees each record that the topic has when it
    starts once: those in objects from the lake, the others from the brokers, which check your
    right to consume. No subscription is made.
    """
    from sulina.live.connection import BlockingConnection
    from sulina.sql.session import SqlSession  # tells if DuckDB is missing

    text = sys.stdin.read() if query == "-" else query
    printer = ResultPrinter(form or ("json" if settings.json else "table"), _TABLE_ROWS)
    with (
        BlockingConnection(make_client(settings)) as connection,
        SqlSession(connection, open_lake(lake), memory) as session,
    ):
        for batch in session.run(text):
            if not printer.take(batch):
                break
        printer.finish()


def open_lake(url: str) -> Lake | None:
    """The lake at a URL, or None."""
    from sulina.tables.objects import Lake, LakePlace

    return Lake(LakePlace.parse(url)) if url else None
