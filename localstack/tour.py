"""The tour of the lake: orders to publish, and a Spark query on them.

``python -m localstack.tour orders`` prints the orders of one day, one per line, as key and JSON.
``... chart`` computes orders and sales by hour with Spark, and draws a chart.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from emr_jobs.jobs.running import DONE, command, guard, session
from sulina.errors import Refused

TOPIC: Final = "/default/orders"
_COUNTRIES: Final = ("RO", "BG", "UA", "AT")


def orders(count: int) -> Iterator[str]:
    """The orders of a day, with more at noon and in the evening."""
    rng = random.Random(7)
    busy = [
        1.2 + math.sin((hour - 6) / 24 * 2 * math.pi) + (hour in (12, 19)) for hour in range(24)
    ]
    for number in range(count):
        order = {
            "order": number,
            "hour": rng.choices(range(24), busy)[0],
            "country": rng.choices(_COUNTRIES, (5, 3, 2, 2))[0],
            "cents": round(rng.lognormvariate(8, 0.7)),
        }
        yield f"customer-{rng.randrange(500)}|{json.dumps(order)}"


def query(path: str) -> list[dict[str, Any]]:
    """Compute orders and sales by hour and country with Spark. Blocks."""
    spark = session(argparse.Namespace(master="local[2]"), "tour")
    options = {"path": path, "topic": TOPIC, "columns": "payload"}
    records = spark.read.format("sulina").options(**options).load()
    records.createOrReplaceTempView("records")
    return [row.asDict() for row in spark.sql(_QUERY).collect()]


_QUERY: Final = """
    with orders as (
        select from_json(cast(payload as string), 'hour int, country string, cents bigint') as it
        from records)
    select it.hour, it.country, count(*) as orders, sum(it.cents) / 100 as sales
    from orders group by 1, 2 order by 1, 2"""


def draw(rows: Sequence[dict[str, Any]], output: Path) -> None:
    """Draw the sales per hour, with one color per country."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    below = [0.0] * 24
    for country in _COUNTRIES:
        sales = {row["hour"]: float(row["sales"]) for row in rows if row["country"] == country}
        heights = [sales.get(hour, 0.0) for hour in range(24)]
        axes.bar(range(24), heights, bottom=below, label=country)
        below = [one + other for one, other in zip(below, heights, strict=True)]
    axes.set(xlabel="hour of the day", ylabel="sales", xticks=range(0, 24, 3))
    axes.legend(ncols=len(_COUNTRIES), loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=90)


def main(argv: Sequence[str]) -> int:
    """Run a command. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m localstack.tour", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser(
        "orders", help="print orders for: sulina produce --key-separator '|'"
    )
    make.add_argument("--count", type=int, default=20_000, help="number of orders (default: 20000)")
    chart = commands.add_parser("chart", help=f"query {TOPIC} with Spark, and draw a chart")
    chart.add_argument(
        "--path",
        default=os.environ.get("SULINA_TIER", ""),
        help="the lake: a folder, or s3://bucket/prefix (default: $SULINA_TIER from cloud.env)",
    )
    chart.add_argument(
        "--output", type=Path, default=Path("tour_lake.png"), help="file of the chart"
    )
    given = parser.parse_args(argv)
    if given.command == "chart":
        return guard(lambda: _chart(given.path, given.output))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # exit quietly if the reader stops, like head
    sys.stdout.writelines(f"{line}\n" for line in orders(given.count))
    return DONE


def _chart(path: str, output: Path) -> int:
    if not path:
        raise Refused("set the lake with --path, or source .sulina-cloud/cloud.env first")
    rows = query(path)
    draw(rows, output)
    total = sum(row["orders"] for row in rows)
    sys.stdout.write(f"{total} orders in {len(rows)} rows; the chart is {output}\n")
    return DONE


if __name__ == "__main__":
    command(main)
