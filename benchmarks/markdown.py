"""The last run as Markdown, in README.md and docs/benchmarks.md, between two comments."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cell import CellFailure, CellOutcome, CellResult, Load
from benchmarks.compare import advantage, kept_rate
from benchmarks.results import RunResults, SystemInfo
from benchmarks.systems import OURS
from benchmarks.units import memory_name, size_name, times_name

ROOT = Path(__file__).parents[1]
PLOT = Path("docs/img/benchmarks.svg")
BEGIN = "<!-- begin: made by `make bench ARGS=--publish` -->"
END = "<!-- end -->"
NAMED = 12
SYNCED = "† acknowledges before data is synced to disk."


def publish(results: RunResults, root: Path = ROOT) -> list[Path]:
    """Replace the last run in both documents; returns them. Raises ValueError without comments."""
    texts = {
        root / "README.md": readme(results),
        root / "docs" / "benchmarks.md": page(results),
    }
    for path, text in texts.items():
        path.write_text(replaced(path.read_text(), text))
    return list(texts)


def replaced(document: str, text: str) -> str:
    """``document`` with ``text`` between its two comments."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no place for the run: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def readme(results: RunResults) -> str:
    """The short table."""
    lines = [
        f"End to end, one producer and one consumer process in Python, {results.machine.cores} "
        f"cores, one run of `{command(results)}`, medians. {SYNCED}",
        "",
        "| | 100-byte records per second | p50 / p99 at 5,000/s of 1 KiB | 1,000 producers, one "
        "record in flight each |",
        "|---|---|---|---|",
    ]
    for system in results.systems:
        cells = (
            _rate(results, system, 100),
            _latency(results, system, short=True),
            _loop(results, system, short=True),
        )
        lines.append(f"| {_name(system)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(results: RunResults) -> str:
    """All tables of the page in docs/."""
    machine, yardsticks = results.machine, results.yardsticks
    sizes = sorted({o.cell.size for o in results.outcomes if o.cell.load == "throughput"})
    sync = yardsticks.sync
    slowest_disk, slowest_hash = yardsticks.slowest
    turns = len(results.repetitions)
    parts = [
        f"`{command(results)}`, {results.when[:16].replace('T', ' ')} UTC; {machine.processor}, "
        f"{machine.cores} cores, {memory_name(machine.memory)}, {machine.kernel}, "
        f"Python {machine.python}; medians, in brackets how many times better Sulina's single "
        f"process is. {SYNCED}",
        "",
        _header("records per second, end to end", *(size_name(size) for size in sizes)),
        *(
            _row(system, *(_rate(results, system, size, ratio=True) for size in sizes))
            for system in results.systems
        ),
        "",
        _header(
            "ms", "p50 / p99 / p99.9 at 5,000/s of 1 KiB", "1,000 producers, one in flight each"
        ),
        *(
            _row(system, _latency(results, system), _loop(results, system))
            for system in results.systems
        ),
        "",
        _header(
            "CPU and memory",
            "server µs per record of 100 B",
            "clients",
            "server µs per record of 16 KiB",
            "server's peak memory",
            "clients'",
        ),
        *(_row(system, *_cost(results, system)) for system in results.systems),
        "",
        f"![The same run](img/{PLOT.name})",
        "",
        f"The machine alone, between all cells: {yardsticks.sequential_mb_per_s:,.0f} MB/s with "
        f"one fdatasync per MiB (the slowest reading {slowest_disk:,.0f}), "
        f"{yardsticks.write_ns:.2f} ns of CPU a byte; a 4 KiB append with "
        f"fdatasync {sync.p50:.2f} / {sync.p99:.2f} / {sync.p999:.2f} ms (p50 / p99 / p99.9); "
        f"SHA-256 on all cores {yardsticks.hash_mb_per_s:,.0f} MB/s (the slowest "
        f"{slowest_hash:,.0f}). {len(results.noise)} of {turns} turns were not quiet"
        + (":" if results.noise else "."),
        *(f"- {sentence}" for sentence in results.noise[:NAMED]),
        *([f"- and {more} more"] if (more := len(results.noise) - NAMED) > 0 else []),
        "",
        "| target | wanted | measured | |",
        "|---|---|---|---|",
        *(
            f"| {target.name} | {target.wanted} | {target.got} | "
            f"{ {True: 'met', False: '**missed**', None: ''}[target.passed] } |"
            for target in results.targets()
        ),
        "",
        "**Where Sulina is worse** than another system in this run (ratio of Sulina's single "
        "process, below 1 is worse):",
        "",
        *(worse(results) or ["- nowhere"]),
    ]
    if results.skipped:
        parts += ["", "Left out:", *(f"- {why}" for why in dict.fromkeys(results.skipped.values()))]
    return "\n".join(parts)


def worse(results: RunResults) -> list[str]:
    """A line for each system and measure in which Sulina's single process is behind."""
    lines = []
    for result in results.measured():
        ours = results.ours(result)
        if ours is None or result.cell.system.startswith(OURS):
            continue
        better = advantage(ours, result)
        measures = {"rate": better.throughput, "memory": better.memory}
        if result.cell.load != "throughput":
            measures |= {"p50": better.p50, "p99": better.p99, "p99.9": better.p999}
        if result.cell.load == "latency":
            del measures["rate"]
        behind = [
            f"{name} {times_name(ratio)}"
            for name, ratio in measures.items()
            if ratio is not None and ratio < 1
        ]
        if behind:
            system = next(s for s in results.systems if s.name == result.cell.system)
            where = f"{result.cell.load}, {size_name(result.cell.size)}"
            lines.append(f"- {_plain(system)} ({where}): {', '.join(behind)}")
    return lines


def command(results: RunResults) -> str:
    """The command that repeats the run."""
    cell = results.outcomes[0].cell
    repeats = -(-len(results.repetitions) // len(results.outcomes))
    return (
        f'make bench ARGS="--seconds {cell.seconds:g} --warm-up {cell.warm_up:g} '
        f'--repeat {repeats}"'
    )


def _header(*titles: str) -> str:
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"


def _row(system: SystemInfo, *cells: str) -> str:
    return f"| {_name(system)} | {' | '.join(cells)} |"


def _plain(system: SystemInfo) -> str:
    return f"{system.title} {system.version}" + ("" if system.synced else " †")


def _name(system: SystemInfo) -> str:
    return f"**{system.title}**" if system.name.startswith(OURS) else _plain(system)


def _find(
    results: RunResults, system: SystemInfo, load: Load, size: int | None = None
) -> CellOutcome | None:
    found = (
        outcome
        for outcome in results.outcomes
        if outcome.cell.system == system.name
        and outcome.cell.load == load
        and size in (None, outcome.cell.size)
    )
    return next(found, None)


def _rate(results: RunResults, system: SystemInfo, size: int, *, ratio: bool = False) -> str:
    outcome = _find(results, system, "throughput", size)
    if not isinstance(outcome, CellResult):
        return _absent(outcome)
    text = _thousands(outcome.records_per_s)
    if outcome.misplaced:
        text += " (misordered)"
    if not ratio:
        return f"**{text}**" if system.name == OURS else text
    text += f", {outcome.mb_per_s:,.0f} MB/s"
    ours = results.ours(outcome)
    if ours is not None and ours is not outcome:
        return f"{text} ({times_name(advantage(ours, outcome).throughput)})"
    spread = outcome.spread
    if spread is not None and spread.runs > 1:
        return f"**{text}** ({_thousands(spread.lowest)} to {_thousands(spread.highest)})"
    return f"**{text}**"


def _latency(results: RunResults, system: SystemInfo, *, short: bool = False) -> str:
    outcome = _find(results, system, "latency")
    if not isinstance(outcome, CellResult) or outcome.latency is None:
        return _absent(outcome)
    if not kept_rate(outcome):
        return f"only {_thousands(outcome.records_per_s)}/s"
    latency = outcome.latency
    values = [latency.p50, latency.p99] if short else [latency.p50, latency.p99, latency.p999]
    return " / ".join(f"{value:.1f}" for value in values) + (" ms" if short else "")


def _loop(results: RunResults, system: SystemInfo, *, short: bool = False) -> str:
    outcome = _find(results, system, "loop")
    if not isinstance(outcome, CellResult) or outcome.latency is None:
        return _absent(outcome)
    text = f"{_thousands(outcome.records_per_s)}/s"
    latency = outcome.latency
    return text if short else f"{text}, {latency.p50:,.0f} / {latency.p99:,.0f} ms (p50 / p99)"


def _cost(results: RunResults, system: SystemInfo) -> list[str]:
    small = _find(results, system, "throughput", 100)
    large = _find(results, system, "throughput", 16 << 10)
    cells = results.measured(system=system.name)

    def per_record(outcome: CellOutcome | None, *, clients: bool = False) -> str:
        if not isinstance(outcome, CellResult):
            return _absent(outcome)
        cpu = outcome.cpu
        seconds = cpu.producer + cpu.consumer if clients else cpu.server
        return f"{seconds * 1e6 / max(outcome.records, 1):.3g}"

    return [
        per_record(small),
        per_record(small, clients=True),
        per_record(large),
        memory_name(max((cell.peak_memory for cell in cells), default=0)),
        memory_name(max((cell.client_memory for cell in cells), default=0)),
    ]


def _absent(outcome: CellOutcome | None) -> str:
    return "failed" if isinstance(outcome, CellFailure) else "not measured"


def _thousands(value: float) -> str:
    """Three digits: a run is no more precise than that."""
    return f"{float(f'{value:.3g}'):,.0f}"
