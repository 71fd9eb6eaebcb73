"""``python -m benchmarks.danube_door``: Danube's clients against Sulina, and against Danube.

Each load is a producer and a consumer that acknowledges every message, with Danube's Python client
and, with ``--go``, with danube-go: at full speed with one and with 64 sends at once, and 500 a
second one at a time. The latter is compared with a bare gRPC call whose handler does one
fdatasync, and one message at a time at full speed with a server that does nothing but what every
synced server must: the calls, one write with its sync, the delivery (``danube_ceiling``). With
``--danube-broker``, Danube's broker gets the same loads in the same run; it acknowledges before
data is on disk. ``make bench`` includes it.

danube-cli is not used as a client: it waits at least 100 ms between messages.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import danube_runs, program
from benchmarks.danube_runs import LoadClient, LoadPlan, LoadResult
from benchmarks.stats import Percentiles
from benchmarks.units import size_name
from sulina.cli.output import plural

SIZES: Final = (100, 1024, 16 << 10)
IN_FLIGHT: Final = (1, 64)
PACE: Final = 500
PACE_SIZE: Final = 1024
RATE_GOAL: Final = 15_000
"""Messages per second from Go, with 64 sends at once."""
CPU_GOAL_MS: Final = 0.1
P99_GOAL_MS: Final = 3.0
"""More than the bare call with its fdatasync."""
SULINA: Final = "Sulina"
DANUBE: Final = "Danube"
CEILING: Final = "calls and one sync"
"""Only where one message is in flight: with more of them, syncs can be shared."""
_NONE: Final = Path()


@dataclass(frozen=True, slots=True)
class DanubeOptions(program.OutputOptions):
    """The command line's options."""

    seconds: float = program.option(4.0, "duration of each load")
    repeat: int = program.option(1, "number of rounds; the table shows the medians")
    go: Path = program.option(_NONE, "checkout of danube-go, for loads from Go")  # noqa: RUF009
    danube_broker: Path = program.option(_NONE, "Danube's broker, to compare")  # noqa: RUF009


@dataclass(frozen=True, slots=True)
class DanubeRound:
    """All measurements once."""

    bare: Percentiles
    """Milliseconds of the bare call with its fdatasync, at the same pace."""
    loads: tuple[LoadResult, ...]


def measure(folder: Path, options: DanubeOptions) -> list[DanubeRound]:
    """Take all rounds: about a minute each with one server and one client.

    Raises ``CannotStart``, ``SubprocessError``, and ``Unavailable`` without the stock client's
    environment.
    """
    clients = [danube_runs.python_client()]
    if options.go != _NONE:
        clients.append(danube_runs.go_client(options.go.resolve(), folder))
    return [_round(folder, options, clients) for _ in range(options.repeat)]


def _round(folder: Path, options: DanubeOptions, clients: Sequence[LoadClient]) -> DanubeRound:
    pace = LoadPlan(PACE_SIZE, 1, options.seconds, PACE)
    with danube_runs.bare_server(folder) as server:
        bare = danube_runs.run_bare(server, clients[0], pace)
    servers = {CEILING: danube_runs.ceiling_server, SULINA: danube_runs.sulina_server}
    if options.danube_broker != _NONE:
        servers[DANUBE] = partial(danube_runs.danube_server, options.danube_broker.resolve())
    plans = [pace, *(LoadPlan(size, n, options.seconds) for size in SIZES for n in IN_FLIGHT)]
    loads = []
    for plan, client in itertools.product(plans, clients):
        for name, start in servers.items():
            if name == CEILING and (plan.rate or plan.in_flight > 1):
                continue
            with start(folder) as server:
                loads.append(danube_runs.run_load(name, server, client, plan))
    return DanubeRound(bare, tuple(loads))


def tables(rounds: Sequence[DanubeRound]) -> list[Table]:
    """The medians of all rounds, with the goals."""
    all_loads = [list(same) for same in zip(*(each.loads for each in rounds), strict=True)]
    bare = median(each.bare.p99 for each in rounds)
    paced = program.table_of(
        f"{PACE} sends of 1 KiB per second, one at a time ({plural(len(rounds), 'round')})",
        *("server", "client", "p50 ms", "p99 ms", "msg/s", "CPU ms/msg"),
        caption=f"goal: p99 within {P99_GOAL_MS:g} ms of the bare call with one fdatasync",
        left=2,
    )
    p50 = median(each.bare.p50 for each in rounds)
    paced.add_row("bare call, one fdatasync", "Python", f"{p50:.2f}", f"{bare:.2f}", "", "")
    full = program.table_of(
        "full speed, end to end, every message acknowledged",
        *("server", "client", "size", "in flight", "msg/s", "send p50 ms", "CPU ms/msg", "goals"),
        caption=f"goals: CPU of at most {CPU_GOAL_MS:g} ms per message; at least Danube's rate; "
        f"from Go, {RATE_GOAL:,} msg/s with 64 in flight",
        left=2,
    )
    danube, ceiling = (
        {_key(same[0]): same for same in all_loads if same[0].server == name}
        for name in (DANUBE, CEILING)
    )
    for same in all_loads:
        first, cpu = same[0], f"{median(each.cpu_ms for each in same):.3f}"
        sent = f"{median(each.ms.p50 for each in same):.2f}"
        if first.paced:
            p99 = median(each.ms.p99 for each in same)
            goal = f"{p99:.2f}" + (
                _met(p99 <= bare + P99_GOAL_MS) if first.server == SULINA else ""
            )
            paced.add_row(first.server, first.client, sent, goal, f"{_rate(same):,.0f}", cpu)
            continue
        full.add_row(
            *(first.server, first.client, size_name(first.size), str(first.in_flight)),
            f"{_rate(same):,.0f}{_undelivered(same)}",
            sent,
            cpu,
            _goals(same, danube.get(_key(first), ()), ceiling.get(_key(first), ()))
            if first.server == SULINA
            else "",
        )
    return [paced, full]


def _key(load: LoadResult) -> tuple[str, int, int, bool]:
    return load.client, load.size, load.in_flight, load.paced


def _rate(same: Sequence[LoadResult]) -> float:
    return median(each.rate for each in same)


def _met(good: bool) -> str:
    return ": met" if good else ": missed"


def _undelivered(same: Sequence[LoadResult]) -> str:
    lost = sum(each.undelivered for each in same)
    return f" ({lost:,} not delivered)" if lost else ""


def _goals(
    same: Sequence[LoadResult], danube: Sequence[LoadResult], ceiling: Sequence[LoadResult]
) -> str:
    """How a load compares with its goals: with Danube only where that delivered everything."""
    rate, first = _rate(same), same[0]
    found = ["CPU" + _met(median(each.cpu_ms for each in same) <= CPU_GOAL_MS)]
    if danube and not _undelivered(danube):
        found.append(f"{rate / _rate(danube):.2f} x Danube" + _met(rate >= _rate(danube)))
    if ceiling and _rate(ceiling):
        found.append(f"{rate / _rate(ceiling):.2f} x {CEILING}")
    if first.client == "Go" and first.in_flight > 1:
        found.append("rate" + _met(rate >= RATE_GOAL))
    return ", ".join(found)


def run(options: DanubeOptions, console: Console) -> None:
    """Measure, print the tables and write ``danube.json``."""
    with program.data_folder(options.out, "danube") as folder:
        rounds = measure(folder, options)
    for each in tables(rounds):
        console.print(each)
    document = {"rounds": [asdict(each) for each in rounds]}
    path = options.out / "danube.json"
    program.write_document(json.dumps(document, indent=1), path, show=options.json)


def main() -> None:
    """Run the benchmark."""
    options = program.parse(DanubeOptions, "danube_door", __doc__, None)
    run(options, program.wide_console(stderr=options.json))


if __name__ == "__main__":
    main()
