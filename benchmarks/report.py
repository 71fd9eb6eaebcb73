"""Prints the results as tables."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from benchmarks.cell import Cell, CellFailure, CellOutcome, CellResult
from benchmarks.compare import advantage, kept_rate
from benchmarks.program import table_of
from benchmarks.results import RunResults
from benchmarks.systems import OURS
from benchmarks.units import memory_name, size_name, times_name

NOT_SYNCED = "† acknowledges before data is synced to disk"


def print_report(results: RunResults, console: Console) -> None:
    """Print all tables."""
    machine = results.machine
    console.print(
        f"\n{machine.processor}, {machine.cores} cores, {memory_name(machine.memory)}, "
        f"{machine.kernel}, Python {machine.python}, data on {machine.filesystem}; "
        f"{results.seconds:g} s a cell, the median of "
        f"{-(-len(results.repetitions) // max(len(results.outcomes), 1))}"
    )
    if machine.filesystem in ("tmpfs", "ramfs"):
        console.print(
            "The data is on a filesystem in memory: nothing here was durable.", style="red"
        )
    for load, table in (
        ("throughput", throughput_table),
        ("latency", latency_table),
        ("loop", loop_table),
    ):
        if any(outcome.cell.load == load for outcome in results.outcomes):
            console.print(table(results))
    console.print(yardstick_table(results))
    console.print(target_table(results))
    console.print(guarantee_table(results))
    for sentence in results.noise:
        console.print(f"[yellow]not quiet:[/] {sentence}", highlight=False)
    print_skipped(results.skipped, console)


def print_skipped(skipped: dict[str, str], console: Console) -> None:
    """Say why systems were not measured, each reason once."""
    for reason in dict.fromkeys(skipped.values()):
        console.print(f"[yellow]skipped:[/] {escape(reason)}", highlight=False)


def throughput_table(results: RunResults) -> Table:
    """Full speed: one row per size and system."""
    table = table_of(
        "End to end, 1 producer, 1 consumer (MB = 10^6 bytes of payload)",
        *("records", "system", "msg/s", "lowest - highest"),
        *("MB/s", "memory", "server CPU/msg", "clients", "Sulina's rate"),
        caption=f"ratios: more than 1 means that Sulina does better; {NOT_SYNCED}",
        left=2,
    )
    size = 0
    for outcome in (outcome for outcome in results.outcomes if outcome.cell.load == "throughput"):
        if size and outcome.cell.size != size:
            table.add_section()
        first = outcome.cell.size != size
        size = outcome.cell.size
        table.add_row(
            size_name(size) if first else "",
            _title(results, outcome.cell),
            *_throughput(results, outcome),
            style=_style(outcome.cell),
        )
    return table


def _throughput(results: RunResults, outcome: CellOutcome) -> list[str | Text]:
    if isinstance(outcome, CellFailure):
        return [_failed(outcome)]
    row: list[str | Text] = [
        f"{outcome.records_per_s:,.0f}" + ("" if not outcome.misplaced else " (misordered!)"),
        _spread(outcome, ",.0f"),
        f"{outcome.mb_per_s:,.1f}",
        memory_name(outcome.peak_memory),
        *_cpu(outcome),
    ]
    ours = results.ours(outcome)
    if ours is not None and ours is not outcome:
        row.append(times_name(advantage(ours, outcome).throughput))
    return row


def _cpu(outcome: CellResult) -> tuple[str, str]:
    """Microseconds of CPU per record: of the server, and of its clients."""
    cpu = outcome.cpu
    per = 1e6 / max(outcome.records, 1)
    return f"{cpu.server * per:.3g} µs", f"{(cpu.producer + cpu.consumer) * per:.3g} µs"


def latency_table(results: RunResults) -> Table:
    """The fixed rate: one row per system."""
    cells = [outcome for outcome in results.outcomes if outcome.cell.load == "latency"]
    first = cells[0].cell
    table = table_of(
        f"Latency end to end at {first.rate:,} msg/s of {size_name(first.size)}, in ms",
        *("system", "p50", "p99", "lowest - highest", "p99.9"),
        *("worst", "msg/s", "memory", "server CPU/msg", "Sulina's p99"),
        caption=f"from the moment due; Sulina's p99: more than 1 is better; {NOT_SYNCED}",
    )
    for outcome in cells:
        row = _latency(results, outcome)
        table.add_row(_title(results, outcome.cell), *row, style=_style(outcome.cell))
    return table


def loop_table(results: RunResults) -> Table:
    """The closed loop: one row per system."""
    cells = [outcome for outcome in results.outcomes if outcome.cell.load == "loop"]
    first = cells[0].cell
    table = table_of(
        f"{first.loops:,} producers on {first.loops:,} topics, one record of "
        f"{size_name(first.size)} in flight each; ms from send to acknowledgement",
        *("system", "sends/s", "lowest - highest", "p50", "p99", "p99.9"),
        *("memory", "server CPU/msg", "clients", "Sulina's rate"),
        caption=f"one process with all producers; {NOT_SYNCED}",
    )
    for outcome in cells:
        table.add_row(
            _title(results, outcome.cell), *_loop(results, outcome), style=_style(outcome.cell)
        )
    return table


def _loop(results: RunResults, outcome: CellOutcome) -> list[str | Text]:
    if isinstance(outcome, CellFailure):
        return [_failed(outcome)]
    latency = outcome.latency
    assert latency is not None
    row: list[str | Text] = [
        f"{outcome.records_per_s:,.0f}",
        _spread(outcome, ",.0f"),
        f"{latency.p50:.1f}",
        f"{latency.p99:.1f}",
        f"{latency.p999:.1f}",
        memory_name(outcome.peak_memory),
        *_cpu(outcome),
    ]
    ours = results.ours(outcome)
    if ours is not None and ours is not outcome:
        row.append(times_name(advantage(ours, outcome).throughput))
    return row


def _latency(results: RunResults, outcome: CellOutcome) -> list[str | Text]:
    if isinstance(outcome, CellFailure):
        return [_failed(outcome)]
    latency = outcome.latency
    assert latency is not None
    row: list[str | Text] = [
        f"{latency.p50:.2f}",
        f"{latency.p99:.2f}",
        _spread(outcome, ".2f"),
        f"{latency.p999:.2f}",
        f"{latency.worst:.2f}",
    ]
    reached = f"{outcome.records_per_s:,.0f}" + ("" if kept_rate(outcome) else " (rate not kept)")
    row += [reached, memory_name(outcome.peak_memory), _cpu(outcome)[0]]
    ours = results.ours(outcome)
    if ours is not None and ours is not outcome:
        row.append(times_name(advantage(ours, outcome).p99))
    return row


def yardstick_table(results: RunResults) -> Table:
    """The baselines of the disk alone."""
    yardsticks = results.yardsticks
    table = table_of("Yardsticks: the machine alone, between all cells", "what", "measured")
    table.add_row(
        "plain sequential write, one fdatasync a MiB, preallocated file",
        f"{yardsticks.sequential_mb_per_s:,.0f} MB/s, {yardsticks.write_ns:.2f} ns of CPU a byte",
    )
    sync = yardsticks.sync
    table.add_row(
        f"4 KiB append + fdatasync, issued at the fixed rate ({yardsticks.sync_per_s:,.0f}/s "
        "reached): p50 / p99 / p99.9",
        f"{sync.p50:.2f} / {sync.p99:.2f} / {sync.p999:.2f} ms",
    )
    slowest_disk, slowest_hash = yardsticks.slowest
    table.add_row("the slowest sequential write", f"{slowest_disk:,.0f} MB/s")
    table.add_row(
        "SHA-256 on all cores (the slowest)",
        f"{yardsticks.hash_mb_per_s:,.0f} ({slowest_hash:,.0f}) MB/s",
    )
    return table


def target_table(results: RunResults) -> Table:
    """The targets, and whether they were met."""
    table = table_of("Targets", "what", "wanted", "got", "", left=4)
    verdicts = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "[dim]-[/]"}
    for target in results.targets():
        table.add_row(target.name, target.wanted, target.got, verdicts[target.passed])
    return table


def guarantee_table(results: RunResults) -> Table:
    """What an acknowledgement means in each system, and how its client was used."""
    headings = ("system", "an acknowledgement means", "how the client is used", "server settings")
    table = table_of("What was compared", *headings, left=4)
    table.show_lines = True
    for system in results.systems:
        chosen = ", ".join(f"{key}={value}" for key, value in system.settings.items())
        table.add_row(
            f"{system.title} {system.version}", system.durability, system.mode, chosen or "defaults"
        )
    return table


def profile_table(result: CellResult) -> Table:
    """The CPU time of one cell per process."""
    table = table_of(
        f"{result.cell.system}: {result.records:,} records of {size_name(result.cell.size)} "
        f"in {result.elapsed:.2f} s: {result.records_per_s:,.0f}/s, {result.mb_per_s:,.1f} MB/s",
        *("process", "CPU seconds", "of one core", "ns a record"),
    )
    spent = result.cpu.server_parts or {"server": result.cpu.server}
    spent = {**spent, "producer": result.cpu.producer, "consumer": result.cpu.consumer}
    for name, seconds in {**spent, "together": sum(spent.values())}.items():
        table.add_row(
            name,
            f"{seconds:.2f}",
            f"{seconds / result.elapsed:.0%}",
            f"{seconds / result.records * 1e9:,.0f}",
        )
    return table


def _spread(result: CellResult, form: str) -> str:
    spread = result.spread
    if spread is None or spread.runs + spread.failed == 1:
        return ""
    failed = f" ({spread.failed} failed)" if spread.failed else ""
    return f"{spread.lowest:{form}} - {spread.highest:{form}}{failed}"


def _title(results: RunResults, cell: Cell) -> str:
    system = next(system for system in results.systems if system.name == cell.system)
    return system.title if system.synced else f"{system.title} †"


def _style(cell: Cell) -> str:
    return "bold" if cell.system == OURS else ""


def _failed(outcome: CellFailure) -> Text:
    return Text(f"failed: {outcome.reason}", style="red")
