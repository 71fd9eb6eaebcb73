"""``python -m benchmarks.node_loss``: what publishers notice if a storage node is killed.

One producer publishes at a steady rate to a broker over three storage nodes, one of which is killed
with SIGKILL in the middle. The latency of a record counts from when it was due. Each repetition has
new processes and empty folders, which are deleted afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sulina
from benchmarks import program
from benchmarks.stats import Percentiles, percentile, summarize
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import SystemServer
from localstack.emulators.server import HOST

TICK = 0.005
GOAL_PAUSE = 1.0
TOPIC = "/default/node-loss"
NODES = 3


@dataclass(slots=True)
class NodeLoss:
    """One repetition. Times are seconds since the node was killed, negative before."""

    due: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    """Values of each acknowledged record, in order."""
    failed: int = 0

    @property
    def pause(self) -> float:
        """The longest time without an acknowledgement, from the kill on."""
        acked = sorted(due + latency for due, latency in zip(self.due, self.latency, strict=True))
        after = [0.0, *(moment for moment in acked if moment > 0)]
        return max((b - a for a, b in itertools.pairwise(after)), default=float("inf"))

    def around(self, *, after: bool) -> Percentiles:
        """Latency in milliseconds of records due before the kill, or after it."""
        pairs = zip(self.due, self.latency, strict=True)
        return summarize([1000 * latency for due, latency in pairs if (due >= 0) is after])


@dataclass(frozen=True, slots=True)
class NodeLossOptions(program.OutputOptions):
    """The command line's options."""

    rate: int = program.option(1000, "records per second")
    size: int = program.option(1024, "bytes per record")
    seconds: float = program.option(3.0, "seconds before and after the kill")
    repeat: int = program.option(10, "number of repetitions, each with new processes")


def main() -> int:
    """Run the benchmark; exits with 1 if a publish failed or the pause was too long."""
    options = program.parse(NodeLossOptions, "node_loss", __doc__, None)
    console = Console(stderr=options.json)
    losses = []
    for number in range(options.repeat):
        losses.append(_repetition(options, number))
        console.print(
            f"{number + 1} of {options.repeat}: pause {losses[-1].pause * 1000:.0f} ms, "
            f"{losses[-1].failed} failed",
            highlight=False,
        )
    console.print(_table(losses, options))
    document = json.dumps(_document(losses, options), indent=1)
    program.write_document(document, options.out / "node_loss.json", show=options.json)
    program.draw(partial(_write_plot, losses), options.out / "node_loss.svg", console)
    failed = sum(loss.failed for loss in losses)
    return 0 if failed == 0 and _pauses(losses)[-1] < GOAL_PAUSE else 1


def _repetition(options: NodeLossOptions, number: int) -> NodeLoss:
    with program.data_folder(options.out, "node-loss") as folder:
        server = SYSTEMS["sulina-3"].start(folder)
        try:
            return asyncio.run(_publish(server, options, number % NODES))
        finally:
            server.stop()


async def _publish(server: SystemServer, options: NodeLossOptions, victim: int) -> NodeLoss:
    payload = bytes(options.size)
    each = max(int(options.rate * TICK), 1)
    ticks = int(options.seconds / TICK)
    tickets: asyncio.Queue[tuple[float, sulina.Ticket] | None] = asyncio.Queue()
    loss = NodeLoss()
    async with (
        sulina.connect(f"sulina://{HOST}:{server.port}") as client,
        client.producer(TOPIC) as producer,
    ):
        await (await producer.send(b"warm"))
        noting = asyncio.create_task(_note(tickets, loss))
        start = time.monotonic() + TICK
        for tick in range(2 * ticks):
            due = start + tick * TICK
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            if tick == ticks:
                server.processes[victim].kill()
                killed = time.monotonic()
            for _ in range(each):
                tickets.put_nowait((due, await producer.send(payload)))
        tickets.put_nowait(None)
        await noting
    loss.due = [due - killed for due in loss.due]
    return loss


async def _note(tickets: asyncio.Queue[tuple[float, sulina.Ticket] | None], loss: NodeLoss) -> None:
    """Acknowledgements arrive in order, so waiting for the tickets one by one is exact."""
    while (item := await tickets.get()) is not None:
        due, ticket = item
        try:
            await ticket
        except sulina.SulinaError:
            loss.failed += 1
        else:
            loss.due.append(due)
            loss.latency.append(time.monotonic() - due)


# ---- the report ----


def _pauses(losses: Sequence[NodeLoss]) -> list[float]:
    return sorted(loss.pause for loss in losses)


def _table(losses: Sequence[NodeLoss], options: NodeLossOptions) -> Table:
    pauses = _pauses(losses)
    failed = sum(loss.failed for loss in losses)
    title = (
        f"{options.rate:,} records of {options.size:,} B a second, one node of three killed, "
        f"{len(losses)} times"
    )
    table = program.table_of(title, "ms", "p50", "p99", "worst")
    for name, after in (("latency before", False), ("latency after", True)):
        parts = [loss.around(after=after) for loss in losses]
        middle = sorted(part.p50 for part in parts)[len(parts) // 2]
        late = sorted(part.p99 for part in parts)[len(parts) // 2]
        table.add_row(
            name, f"{middle:.1f}", f"{late:.1f}", f"{max(part.worst for part in parts):.0f}"
        )
    shares = [1000 * percentile(pauses, share) for share in (0.5, 0.99, 1.0)]
    table.add_row("pause", *(f"{share:.0f}" for share in shares))
    table.caption = (
        f"failed publishes: {failed} (goal 0); pause at p99 {shares[1]:.0f} ms "
        f"(goal under {GOAL_PAUSE * 1000:.0f} ms)"
    )
    return table


def _document(losses: Sequence[NodeLoss], options: NodeLossOptions) -> dict[str, object]:
    return {
        "rate": options.rate,
        "size": options.size,
        "pause_p99_s": percentile(_pauses(losses), 0.99),
        "failed": sum(loss.failed for loss in losses),
        "repetitions": [
            {
                "pause_s": loss.pause,
                "failed": loss.failed,
                "before_ms": asdict(loss.around(after=False)),
                "after_ms": asdict(loss.around(after=True)),
            }
            for loss in losses
        ],
    }


def _write_plot(losses: Sequence[NodeLoss], path: Path) -> None:
    """Draw the latency of every record of every repetition over time, as SVG."""
    from matplotlib import pyplot

    from benchmarks.plot import COLOURS, FAINT, STYLE

    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(8, 3.2))
        for loss in losses:
            axes.plot(
                loss.due,
                [1000 * seconds for seconds in loss.latency],
                linestyle="none",
                marker=".",
                markersize=1.5,
                color=COLOURS["sulina-3"],
                rasterized=True,
            )
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_yscale("log")
        axes.set_xlabel("seconds since a storage node was killed")
        axes.set_ylabel("publish latency, ms")
        figure.tight_layout()
        figure.savefig(path)
        pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
