"""``python -m benchmarks.scale KIND``: measure how cost grows, one kind at a time, and plot it.

Results of all kinds are kept in ``scale.json`` of the results folder and merged by point, so that a
run can be made in slices; ``report`` prints them and draws ``scale.svg``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cluster.failover import failover
from benchmarks.program import RESULTS, draw, wide_console
from benchmarks.scale import connections, growth
from benchmarks.scale.report import FILE, markdown, print_points
from benchmarks.systems.base import CannotStart
from benchmarks.units import parse_size
from benchmarks.watch import machine_cpu_seconds
from sulina.cli.running import loop_factory
from sulina.errors import SulinaError

Point = dict[str, Any]
POINTS = {
    "topics": "1,10,100,1000,10000",
    "producers": "1,10,100,1000",
    "sizes": "1k,16k,256k,1m,10m",
    "history": "1,2,4,8",
    "connections": "10000",
    "failover": "1000",
    "lookups": "1",
}
HELP = {
    "topics": "numbers of topics, with 64 records of 1 KiB in flight",
    "producers": "numbers of producers on one topic, with one record in flight each",
    "sizes": "bytes of a record, one producer and one consumer at full speed",
    "history": "GB in one topic; left out if the disk has not 10 GB more",
    "connections": "numbers of connections, each with its own topic",
    "failover": "numbers of topics of a broker that is killed, in a cluster of three",
    "lookups": "no meaning: publish latency alone and beside a storm of lookups",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure one kind, or report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kind", choices=[*POINTS, "report"], help=", ".join(POINTS))
    parser.add_argument("--points", help="comma-separated; the default depends on the kind")
    parser.add_argument("--seconds", type=float, default=5.0, help="per point (default: 5)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--plot", type=Path, help="also write the plot here (report)")
    given = parser.parse_args(arguments)
    # As Ctrl-C does: what runs is stopped with this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = wide_console(stderr=False)
    if given.kind != "report":
        given.out.mkdir(parents=True, exist_ok=True)
        _allow_descriptors()
        print(f"{given.kind}: {HELP[given.kind]}", file=sys.stderr)
        try:
            _measure(given.kind, (given.points or POINTS[given.kind]).split(","), given)
        except (CannotStart, RuntimeError, SulinaError) as error:
            console.print(f"{given.kind} was not measured: {error}", style="red", markup=False)
            return 1
    kept = read(given.out)
    if not kept:
        console.print(f"nothing was measured: {given.out / FILE} is not there", style="red")
        return 1
    print_points(kept if given.kind == "report" else {given.kind: kept[given.kind]}, console)
    if given.kind == "report":
        (given.out / "scale.md").write_text(markdown(kept))
        for path in filter(None, (given.out / "scale.svg", given.plot)):
            draw(lambda place: _plot(kept, place), path, console)
    return 0


def read(out: Path) -> dict[str, dict[str, Point]]:
    """The points measured so far, by kind and point."""
    path = out / FILE
    found: dict[str, dict[str, Point]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _measure(kind: str, points: list[str], given: argparse.Namespace) -> None:
    seconds, out = given.seconds, given.out

    def keep(name: str, point: Point) -> None:
        kept = read(out)
        kept.setdefault(kind, {})[name] = point
        (out / FILE).write_text(json.dumps(kept, indent=2) + "\n")

    if kind == "history":
        amounts = [float(point) for point in points]
        found = _noted(lambda: growth.history(amounts, seconds, out))
        for point in found["points"]:
            keep(f"{point['units']:.2g}", {**point, **found["noted"]})
        return
    for text in points:
        found = _noted(_work(kind, text, seconds, out))
        keep(text, {**found["points"], **found["noted"]})


def _work(
    kind: str, text: str, seconds: float, out: Path
) -> Callable[[], Coroutine[Any, Any, Point]]:
    """The measurement of one point."""
    if kind == "sizes":
        return partial(growth.sizes, parse_size(text), seconds, out)
    if kind == "lookups":
        return partial(connections.lookups, seconds, out)
    if kind == "failover":
        return partial(failover, int(text), 8)
    measure = {
        "topics": growth.topics,
        "producers": growth.producers,
        "connections": connections.connections,
    }[kind]
    return partial(measure, int(text), seconds, out)


def _noted(work: Callable[[], Coroutine[Any, Any, Any]]) -> dict[str, Any]:
    """What ``work`` measured, when, and how busy the machine was, this work included."""
    load, cpu, began = os.getloadavg()[0], machine_cpu_seconds(), time.monotonic()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        points = runner.run(work())
    cores = (machine_cpu_seconds() - cpu) / (time.monotonic() - began)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "points": points,
        "noted": {"when": when, "load_before": load, "cores_busy": round(cores, 2)},
    }


def _allow_descriptors() -> None:
    """As many files and connections as this user may have; servers inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _plot(kept: dict[str, dict[str, Point]], path: Path) -> None:
    from benchmarks.scale.plot import write_plot

    write_plot(kept, path)


if __name__ == "__main__":
    sys.exit(main())
