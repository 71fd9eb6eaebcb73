"""What docs/tour_lake.md needs besides Sulina: orders to publish, and a question for Spark.

``python -m tests.end_to_end.tour orders`` writes a line for each order of one day, key and JSON.
``... chart --path LAKE --output FILE`` asks Spark for orders and sales by hour, and draws them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from emr_jobs.java import prepare_java

TOPIC: Final = "/default/orders"
_COUNTRIES: Final = ("RO", "BG", "UA", "AT")
_ROOT: Final = Path(__file__).parents[2]


def orders(count: int) -> Iterator[str]:
    """Orders of a day, more of them at noon and in the evening."""
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


def ask(path: str) -> list[dict[str, Any]]:
    """Orders and sales by hour and country, from Spark. Blocks."""
    prepare_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)  # of Spark's Python processes, for the data source
    from tests.spark.program import new_session

    with tempfile.TemporaryDirectory(prefix="sulina-tour-") as folder:
        spark = new_session(Path(folder))
        try:
            options = {"path": path, "topic": TOPIC, "columns": "payload"}
            records = spark.read.format("sulina").options(**options).load()
            records.createOrReplaceTempView("records")
            rows = spark.sql(_QUESTION).collect()
            return [row.asDict() for row in rows]
        finally:
            spark.stop()


_QUESTION: Final = """
    with orders as (
        select from_json(cast(payload as string), 'hour int, country string, cents bigint') as it
        from records)
    select it.hour, it.country, count(*) as orders, sum(it.cents) / 100 as sales
    from orders group by 1, 2 order by 1, 2"""


def draw(rows: Sequence[dict[str, Any]], output: Path) -> None:
    """Sales of each hour, a colour for each country."""
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


def main() -> None:
    """Parse and do."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.tour", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("orders")
    make.add_argument("--count", type=int, default=20_000)
    chart = commands.add_parser("chart")
    chart.add_argument("--path", required=True, help="the lake: a folder, or s3://bucket/prefix")
    chart.add_argument("--output", type=Path, default=Path("tour_lake.png"))
    given = parser.parse_args()
    if given.command == "orders":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads may have enough
        sys.stdout.writelines(f"{line}\n" for line in orders(given.count))
        return
    rows = ask(given.path)
    draw(rows, given.output)
    total = sum(row["orders"] for row in rows)
    sys.stdout.write(f"{total} orders in {len(rows)} rows; the chart is {given.output}\n")


if __name__ == "__main__":
    main()
