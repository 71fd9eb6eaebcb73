"""The command line of ``python -m benchmarks.balance``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import program
from benchmarks.balance.scenarios import DEFAULT, SCENARIOS
from benchmarks.program import RESULTS, option

SIZES = ((10, 1_000), (100, 10_000), (1_000, 100_000), (10_000, 1_000_000))
ALPHAS = (0.0, 3.0, 2.5, 2.0, 1.5, 1.16)
LARGE = (1_000, 100_000)
"""The size that is simulated with every skew; the others use the default skew."""
USUAL_ALPHA = 2.0


def _scenarios(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if names == ("none",):
        return ()
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"there is no scenario {', '.join(unknown)}: choose from {', '.join(SCENARIOS)}, none"
        )
    return names


def _sizes(text: str) -> tuple[tuple[int, int], ...]:
    if text.strip() == "none":
        return ()
    sizes: list[tuple[int, int]] = []
    for part in text.split(","):
        brokers, _, topics = part.lower().partition("x")
        if not brokers.strip().isdigit() or not topics.strip().isdigit() or int(brokers) < 2:
            raise argparse.ArgumentTypeError(f"{part!r} is not a size: try 1000x100000")
        sizes.append((int(brokers), int(topics)))
    return tuple(sizes)


def _alphas(text: str) -> tuple[float, ...]:
    try:
        alphas = tuple(float(part) for part in text.split(","))
    except ValueError:
        alphas = (-1.0,)
    if any(alpha != 0 and not 1 < alpha < 100 for alpha in alphas):
        raise argparse.ArgumentTypeError(f"{text!r}: a skew is 0 or more than 1 (no mean below)")
    return alphas


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours < 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours")
    return hours


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """What to simulate, and where to write the results."""

    scenarios: tuple[str, ...] = option(
        DEFAULT,
        f"comma-separated, of {', '.join(SCENARIOS)}; or none (default: all but large)",
        type=_scenarios,
        metavar="A,B",
    )
    sizes: tuple[tuple[int, int], ...] = option(
        SIZES,
        "brokers x topics of the random starts, or none (default: 10x1000 to 10000x1000000)",
        type=_sizes,
        metavar="NxM,...",
    )
    alphas: tuple[float, ...] = option(
        ALPHAS,
        "skews of the random starts with 1000x100000 (default: 0,3,2.5,2,1.5,1.16)",
        type=_alphas,
        metavar="A,B",
    )
    seed: int = option(1, "seed of the simulation (default: 1)")
    hours: float | None = option(
        None, "virtual hours of every scenario (default: its own)", type=_hours
    )
    quick: bool = option(False, "fewer topics, and starts of up to 100 brokers")
    unbalanced: bool = option(
        True, "do not simulate the scenarios without balancing", flag="--no-comparison"
    )
    out: Path = option(  # noqa: RUF009
        RESULTS,
        "folder for balance.json and the plot (default: benchmarks/results)",
        type=Path,
    )
    plot: Path | None = option(  # noqa: RUF009
        None, "file of the plot, .svg or .png (default: balance.svg in --out)", type=Path
    )
    draw: bool = option(True, "do not draw the plot", flag="--no-plot")
    json: bool = option(False, "print JSON, with the tables on standard error")


def parse(arguments: Sequence[str]) -> BalanceOptions:
    """Parse the command line. Exits with an error message if it is invalid."""
    text = "Simulate balancing with the broker's own decision code, in virtual time."
    skew = "Skew is the tail index of a Pareto distribution: 1.16 is 80/20, 0 is all equal."
    given = program.parse(BalanceOptions, "balance", text, arguments, skew)
    sizes = SIZES[:2] if given.quick and given.sizes is SIZES else given.sizes
    plot = (given.plot or given.out / "balance.svg") if given.draw else None
    return replace(given, sizes=sizes, plot=plot)
