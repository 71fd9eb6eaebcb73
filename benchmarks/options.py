"""The command line of ``python -m benchmarks``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import program
from benchmarks.cell import Load
from benchmarks.compare import LATENCY_RATE
from benchmarks.program import RESULTS, option
from benchmarks.source import STAMP
from benchmarks.systems import SYSTEMS
from benchmarks.units import parse_size

LOADS: tuple[Load, ...] = ("throughput", "latency", "loop")
SIZES = (100, 1024, 16 * 1024)
GIB = 1 << 30


def _systems(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"unknown system {', '.join(unknown) or '(none given)'}: choose from "
            f"{', '.join(SYSTEMS)}"
        )
    # Always in the same order, with Sulina first, as in tables and plots.
    return tuple(name for name in SYSTEMS if name in names)


def _size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: try 100, 1k or 16k") from None
    if size < STAMP.size:
        raise argparse.ArgumentTypeError(
            f"records must have at least {STAMP.size} bytes, not {size}"
        )
    return size


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({_size(part) for part in text.split(",")}))


def _count(text: str) -> int:
    return int(max(_above_zero(text), 1))


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _loads(text: str) -> tuple[Load, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in LOADS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"unknown load {', '.join(unknown) or '(none given)'}: choose from {', '.join(LOADS)}"
        )
    return tuple(load for load in LOADS if load in names)


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What to measure, and where to write the results."""

    systems: tuple[str, ...] = option(
        tuple(SYSTEMS),
        f"comma-separated, of {', '.join(SYSTEMS)} (default: all that are installed)",
        type=_systems,
        metavar="A,B",
    )
    sizes: tuple[int, ...] = option(
        SIZES, "bytes (default: 100,1k,16k)", type=_sizes, metavar="N,N"
    )
    loads: tuple[Load, ...] = option(
        LOADS, f"comma-separated, of {', '.join(LOADS)} (default: all)", type=_loads, metavar="A,B"
    )
    loops: int = option(1000, "producers and topics of the load `loop`", type=_count)
    warm_up: float = option(
        None, "seconds of load before each measurement (default: 3)", type=_above_zero
    )
    seconds: float = option(
        None, "duration of each cell (default: 5)", type=_above_zero, alone=True
    )
    quick: bool = option(False, "run cells of 1 second, once", alone=True)
    repeat: int = option(None, "repetitions per cell; shows the median (default: 3)", type=_count)
    rate: int = option(LATENCY_RATE, "msg/s for latency (default: 5000)", type=_count)
    max_bytes: int = option(
        2 * GIB, "maximum payload per cell (default: 2 GiB)", type=_size, metavar="N"
    )
    out: Path = option(  # noqa: RUF009
        RESULTS,
        "folder for the JSON and the plot (default: benchmarks/results)",
        type=Path,
    )
    data: Path = option(  # noqa: RUF009
        Path(), "folder for the servers' data (default: data under --out)", type=Path
    )
    resume: bool = option(
        False, "keep the turns that --out has already, and measure only those that are missing"
    )
    stop_after: float = option(
        0.0, "start no further cell after so many seconds; continue with --resume (default: never)"
    )
    report: bool = option(
        False, "measure nothing: print tables and write files from the turns that --out has"
    )
    publish: bool = option(
        False, "like --report, and put tables and plot into README.md and docs/benchmarks.md"
    )
    fetch: bool = option(
        False, "get Kafka and Pulsar with Maven and the newest NATS with Go, and exit"
    )
    plot: bool = option(True, "do not write the plot", flag="--no-plot")
    json: bool = option(False, "print JSON, with the tables on standard error")
    list: bool = option(False, "list what can be measured on this machine, and exit")
    profile: bool = option(
        False, "only print CPU seconds per process (default: Sulina's 100 B cell)"
    )


def parse(arguments: Sequence[str]) -> BenchmarkOptions:
    """Parse the command line. Exits with an error message if it is invalid."""
    text = "Compare Sulina with Kafka, Pulsar, NATS, Redis, RabbitMQ and Danube."
    given = program.parse(BenchmarkOptions, "", text, arguments)
    return replace(
        given,
        warm_up=given.warm_up or (1.0 if given.quick else 3.0),
        seconds=given.seconds or (1.0 if given.quick else 5.0),
        repeat=given.repeat or (1 if given.quick else 3),
        data=given.out / "data" if given.data == Path() else given.data,
    )
