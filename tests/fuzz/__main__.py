"""Fuzzes everything that decodes bytes from outside, guided by coverage.

Each target gets inputs until its time is over. Only documented errors may be raised, nothing may
hang or take memory out of proportion, and what can be encoded again must stay the same. Inputs that
reach new code are kept in .fuzz/ and are the start of the next run; an input that fails is written
to tests/fuzz/corpus/, where `make test` replays it from then on. Exit code 1: one failed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from localstack.environments import environment
from sulina.errors import Unavailable
from tests.fuzz.target import Target
from tests.fuzz.targets import MODULES, TARGETS
from tests.fuzz.worker import check_memory

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
WORK = ROOT / ".fuzz"
_INPUT_SECONDS = 25
"""An input that takes longer hangs. Real time: a busy machine must not exceed it."""
_COVERAGE = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)")
_COUNT = re.compile(r"(?:stat::number_of_executed_units:|executed) +(\d+)")
_EXAMPLES = """examples:
  make fuzz MINUTES=1                      every target for a minute
  make fuzz MINUTES=10 ARGS="frame lake"   two targets
  make fuzz ARGS=--list                    what there is
  python -m tests.fuzz --replay tests/fuzz/corpus/frame/failed-0123456789abcdef
"""


@dataclass(slots=True)
class Row:
    """What came of one target."""

    target: str
    executions: int = 0
    seconds: float = 0.0
    coverage: list[int] = field(default_factory=list)
    inputs: int = 0
    crashes: list[Path] = field(default_factory=list)
    log: Path = WORK

    def read(self, line: str) -> None:
        """Take what a line of the worker says."""
        if found := _COVERAGE.match(line):
            self.executions = max(self.executions, int(found[1]))
            self.coverage = [*self.coverage[:1], int(found[2])]
            self.inputs = int(found[3])
        elif found := _COUNT.match(line):
            self.executions = int(found[1])

    def __str__(self) -> str:
        first, last = (self.coverage[0], self.coverage[-1]) if self.coverage else (0, 0)
        rate = self.executions / self.seconds if self.seconds else 0.0
        return (
            f"{self.target:<15}{self.executions:>12,}{rate:>10,.0f}{first:>9,}"
            f"{'+' + format(last - first, ','):>8}{self.inputs:>8,}{len(self.crashes):>9}"
        )


_HEAD = (
    f"{'target':<15}{'executions':>12}{'a second':>10}{'coverage':>9}{'growth':>8}"
    f"{'corpus':>8}{'failures':>9}"
)


async def fuzz(target: Target, seconds: float, packages: Path) -> Row:
    """Run one worker until it ends."""
    work, found = WORK / target.name, CORPUS / target.name
    for folder in (work, found):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (work / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    before = set(found.iterdir())
    row = Row(target.name, log=WORK / f"{target.name}.log")
    arguments = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={_INPUT_SECONDS}",
        f"-report_slow_units={_INPUT_SECONDS}",  # a slow one is no failure
        f"-max_len={target.max_bytes}",
        f"-artifact_prefix={found}/",
        *("-rss_limit_mb=2048", "-print_final_stats=1", "-len_control=0"),
        *(str(work), str(found)),
    ]
    began = time.monotonic()
    with row.log.open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fuzz.worker"),
            *(MODULES[target.name], target.name, str(found)),
            *arguments,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}"},
            stdout=log,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                text = line.decode(errors="replace")
                log.write(text)
                row.read(text)
                if len(row.coverage) == 1:
                    began = time.monotonic()  # the product is instrumented, the corpus is read
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
    row.seconds = time.monotonic() - began
    row.crashes = sorted(set(found.iterdir()) - before)
    if code and not row.crashes:
        row.crashes = [row.log]  # it failed before the first input, or without leaving one
    return row


async def fuzz_all(targets: list[Target], seconds: float, jobs: int) -> list[Row]:
    """Run the targets, ``jobs`` at a time; prints a row as each ends."""
    packages = environment("fuzz").parent / "lib" / f"python3.{sys.version_info[1]}/site-packages"
    turns = asyncio.Semaphore(jobs)
    _say(_HEAD)

    async def one(target: Target) -> Row:
        async with turns:
            row = await fuzz(target, seconds, packages)
        _say(str(row))
        return row

    return list(await asyncio.gather(*map(one, targets)))


def replay(path: Path) -> None:
    """Run one input of the target that its folder is named for. Raises what it raises."""
    target = TARGETS[path.resolve().parent.name]
    check_memory(target, lambda: target.run(path.read_bytes()))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", nargs="*", help="fuzz these targets; all if none is given")
    parser.add_argument("--minutes", type=float, default=1.0, help="time for each target (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input and stop")
    given = parser.parse_args(arguments)
    unknown = set(given.target) - TARGETS.keys()
    if unknown:
        parser.error(f"no target is called {min(unknown)}: choose from {', '.join(TARGETS)}")
    if given.list:
        for target in TARGETS.values():
            _say(f"{target.name:<15} {target.summary}")
        return 0
    if given.replay is not None:
        replay(given.replay)
        _say("the input passes")
        return 0
    chosen = [TARGETS[name] for name in given.target or TARGETS]
    try:
        rows = asyncio.run(fuzz_all(chosen, given.minutes * 60, max(1, given.jobs)))
    except Unavailable as error:
        _say(f"{error}\natheris has wheels for Linux on x86-64 and a few versions of Python only.")
        return 2
    _say(f"{'total':<15}{sum(row.executions for row in rows):>12,}")
    crashes = [(row, path) for row in rows for path in row.crashes]
    for row, path in crashes:
        where = path.relative_to(ROOT)
        if path == row.log:
            _say(f"{row.target} failed without an input: see {where}")
        else:
            _say(f"{row.target}: .venv/bin/python -m tests.fuzz --replay {where}")
    return 1 if crashes else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
