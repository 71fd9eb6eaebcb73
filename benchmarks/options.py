"""The command line of ``python -m benchmarks``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import LATENCY_RATE
from benchmarks.program import RESULTS
from benchmarks.source import STAMP
from benchmarks.systems import SYSTEMS
from benchmarks.units import parse_size

SIZES = (100, 1024, 16 * 1024)
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What to measure, and where to write the results."""

    systems: tuple[str, ...]
    sizes: tuple[int, ...]
    seconds: float
    repeat: int
    rate: int
    max_bytes: int
    out: Path
    data: Path
    plot: bool
    json: bool
    list: bool
    profile: bool


def parse(arguments: Sequence[str]) -> BenchmarkOptions:
    """Parse the command line. Exits with an error message if it is invalid."""
    given = vars(_parser().parse_args(arguments))
    quick = given.pop("quick")
    given["seconds"] = given["seconds"] or (1.0 if quick else 5.0)
    given["repeat"] = given["repeat"] or (1 if quick else 3)
    given["data"] = given["data"] or given["out"] / "data"
    return BenchmarkOptions(**given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare Sulina with NATS JetStream, Redis Streams and RabbitMQ streams.",
    )
    add = parser.add_argument
    add(
        "--systems",
        type=_systems,
        default=tuple(SYSTEMS),
        metavar="A,B",
        help=f"comma-separated, of {', '.join(SYSTEMS)} (default: all that are installed)",
    )
    add("--sizes", type=_sizes, default=SIZES, metavar="N,N", help="bytes (default: 100,1k,16k)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_above_zero, help="duration of each cell (default: 5)")
    length.add_argument("--quick", action="store_true", help="run cells of 1 second, once")
    add("--repeat", type=_count, help="repetitions per cell; shows the median (default: 3)")
    add("--rate", type=_count, default=LATENCY_RATE, help="msg/s for latency (default: 5000)")
    add(
        "--max-bytes",
        type=_size,
        default=2 * GIB,
        metavar="N",
        help="maximum payload per cell (default: 2 GiB)",
    )
    add(
        "--out",
        type=Path,
        default=RESULTS,
        help="folder for the JSON and the plot (default: benchmarks/results)",
    )
    add("--data", type=Path, help="folder for the servers' data (default: data under --out)")
    add("--no-plot", dest="plot", action="store_false", help="do not write the plot")
    add("--json", action="store_true", help="print JSON, with the tables on standard error")
    add("--list", action="store_true", help="list what can be measured on this machine, and exit")
    add(
        "--profile",
        action="store_true",
        help="only print CPU seconds per process (default: Sulina's 100 B cell)",
    )
    return parser


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
