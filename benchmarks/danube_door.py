"""``python -m benchmarks.danube_door``: Danube clients compared with an empty gRPC server.

Measures a stock producer that sends one message at a time, and 64 concurrent sends, each against
`sulina up` and against the bare server, in turns, from the same client process on the same cores;
and the disk's fdatasync in the same run. `make bench` includes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import program
from benchmarks.stats import Percentiles, summarize
from benchmarks.systems.base import SystemServer
from benchmarks.watch import cpu_seconds
from benchmarks.yardsticks import paced_sync
from localstack.emulators.server import HOST
from localstack.environments import environment
from sulina.cli.output import plural

ACK_GOAL: Final = 2.0
RATE_GOAL: Final = 0.8
CALLERS: Final = 64
SYNC_RATE: Final = 1000
_LOAD: Final = Path(__file__).with_name("danube_load.py")
_START_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One load against one server."""

    rate: float
    """Responses per second."""
    ms: Percentiles
    """Milliseconds from a call to its response."""
    cpu_us: float
    """The server's CPU time per response: more reliable on a busy machine than the rate."""


@dataclass(frozen=True, slots=True)
class DanubeRound:
    """All measurements once, one after the other."""

    fdatasync_ms: float
    """Median of a 4 KiB append with its fdatasync."""
    bare_one: LoadResult
    door_one: LoadResult
    """The stock producer, one send at a time."""
    bare_many: LoadResult
    door_many: LoadResult
    """The same calls as those to the bare server."""
    stock_many: LoadResult
    """The stock producer, which does more per send than the bare call."""

    @property
    def ack_ratio(self) -> float:
        """Time to the acknowledgement, in bare round trips with one fdatasync."""
        return self.door_one.ms.p50 / (self.bare_one.ms.p50 + self.fdatasync_ms)

    @property
    def rate_ratio(self) -> float:
        """The rate of concurrent sends, relative to the bare server."""
        return self.door_many.rate / self.bare_many.rate


@dataclass(frozen=True, slots=True)
class DanubeOptions(program.OutputOptions):
    """The command line's options."""

    seconds: float = program.option(3.0, "duration of each load")
    repeat: int = program.option(3, "number of rounds")


def measure(folder: Path, seconds: float, repeat: int, size: int = 1024) -> list[DanubeRound]:
    """Take all rounds; blocks for about six times ``seconds`` each. Leaves nothing in ``folder``.

    Raises ``CannotStart``, and ``Unavailable`` without the stock client's environment.
    """
    python = environment("danube") / "python"

    def load(server: SystemServer, how: str, callers: int) -> LoadResult:
        place = f"{HOST}:{server.port}"
        command = load_command(python, place, how, callers, seconds, size)
        before = cpu_seconds(server.tree())
        done = subprocess.run(command, capture_output=True, check=True, timeout=60 + 10 * seconds)
        found = json.loads(done.stdout)
        answered = found["answered"]
        cpu_us = (cpu_seconds(server.tree()) - before) / answered * 1e6
        return LoadResult(answered / found["seconds"], summarize(found["ms"]), cpu_us)

    with _servers(folder) as (bare, door):
        rounds = []
        for _ in range(repeat):
            syncs, _reached = paced_sync(folder / "sync", seconds, SYNC_RATE)
            rounds.append(
                DanubeRound(
                    summarize(syncs).p50,
                    bare_one=load(bare, "raw", 1),
                    door_one=load(door, "stock", 1),
                    bare_many=load(bare, "raw", CALLERS),
                    door_many=load(door, "raw", CALLERS),
                    stock_many=load(door, "stock", CALLERS),
                )
            )
        return rounds


def load_command(
    python: Path, place: str, how: str, callers: int, seconds: float, size: int
) -> list[str]:
    """The command that runs a load in the stock client's environment (``danube_load``)."""
    return [str(python), str(_LOAD), place, how, str(callers), str(seconds), str(size)]


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[SystemServer, SystemServer]]:
    """The bare server and the broker."""
    bare, door = SystemServer(folder / "bare.log"), SystemServer(folder / "door.log")
    try:
        bare.run([sys.executable, "-m", "benchmarks.danube_bare", str(bare.port)])
        door.run(
            [
                *(sys.executable, "-m", "sulina.cli", "up", "--data", str(folder / "data")),
                *("--port", "0", "--grpc-port", str(door.port)),
            ]
        )
        yield bare.started(_START_SECONDS), door.started(_START_SECONDS)
    finally:
        for server in (bare, door):
            server.stop()


def table(rounds: Sequence[DanubeRound]) -> Table:
    """The medians of all rounds, with the goals."""
    made = program.table_of(
        f"the door for Danube's clients: medians of {plural(len(rounds), 'round')}",
        *("", "sends/s", "p50 ms", "p99 ms", "server's CPU us", "against the bare server"),
        caption=f"goals: one send within {ACK_GOAL:g} bare round trips with an fdatasync; "
        f"{CALLERS} at once at {RATE_GOAL:.0%} of the bare rate",
    )

    def row(name: str, loads: list[LoadResult], ratio: str = "") -> None:
        made.add_row(
            name,
            f"{median(load.rate for load in loads):,.0f}",
            f"{median(load.ms.p50 for load in loads):.2f}",
            f"{median(load.ms.p99 for load in loads):.2f}",
            f"{median(load.cpu_us for load in loads):.0f}",
            ratio,
        )

    sync = median(each.fdatasync_ms for each in rounds)
    made.add_row("a 4 KiB append with its fdatasync", "", f"{sync:.2f}", "", "", "")
    row("bare server, one call at a time", [each.bare_one for each in rounds])
    row("stock producer, one send at a time", [each.door_one for each in rounds], _ack(rounds))
    row(f"bare server, {CALLERS} calls at once", [each.bare_many for each in rounds])
    row(f"door, {CALLERS} of the same calls", [each.door_many for each in rounds], _rate(rounds))
    share = median(each.stock_many.rate / each.bare_many.rate for each in rounds)
    stock = [each.stock_many for each in rounds]
    row(f"stock producer, {CALLERS} sends at once", stock, f"{share:.0%} of the rate")
    return made


def _ack(rounds: Sequence[DanubeRound]) -> str:
    found = median(each.ack_ratio for each in rounds)
    return f"{found:.2f} x with an fdatasync: {'met' if found <= ACK_GOAL else 'missed'}"


def _rate(rounds: Sequence[DanubeRound]) -> str:
    found = median(each.rate_ratio for each in rounds)
    return f"{found:.0%} of the rate: {'met' if found >= RATE_GOAL else 'missed'}"


def run(options: DanubeOptions, console: Console) -> None:
    """Measure, print the table and write ``danube.json``."""
    with program.data_folder(options.out, "danube") as folder:
        rounds = measure(folder, options.seconds, options.repeat)
    console.print(table(rounds))
    document = {
        "ack_ratio": median(each.ack_ratio for each in rounds),
        "rate_ratio": median(each.rate_ratio for each in rounds),
        "rounds": [asdict(each) for each in rounds],
    }
    path = options.out / "danube.json"
    program.write_document(json.dumps(document, indent=1), path, show=options.json)


def main() -> None:
    """Run the benchmark."""
    options = program.parse(DanubeOptions, "danube_door", __doc__, None)
    run(options, program.wide_console(stderr=options.json))


if __name__ == "__main__":
    main()
