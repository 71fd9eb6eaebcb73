"""Finds the turns during which the machine was busy with something else, or slower than usual."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.cell import CellResult
from benchmarks.turns import Turn
from benchmarks.units import size_name

FOREIGN = 0.25
"""Cores used by others; the kernel's own threads use some for every system."""
SLOWER = 0.6
"""Of the median of all readings."""


def noise(turns: Sequence[Turn]) -> list[str]:
    """A sentence for each turn that was disturbed, in the order of ``turns``."""
    if not turns:
        return []
    readings = [reading for turn in turns for reading in (turn.before, turn.after)]
    disk = median(reading.sequential_mb_per_s for reading in readings)
    hashed = median(reading.hash_mb_per_s for reading in readings)
    found = []
    for turn in turns:
        reasons = []
        outcome = turn.outcome
        if isinstance(outcome, CellResult) and outcome.cpu.foreign > FOREIGN:
            reasons.append(f"{outcome.cpu.foreign:.2f} cores were used by others")
        # The better of both readings: a server's data may still be on its way to the disk.
        wrote = max(turn.before.sequential_mb_per_s, turn.after.sequential_mb_per_s)
        if wrote < disk * SLOWER:
            reasons.append(f"the disk wrote {wrote:,.0f} MB/s, {disk:,.0f} at the median")
        could = max(turn.before.hash_mb_per_s, turn.after.hash_mb_per_s)
        if could < hashed * SLOWER:
            reasons.append(f"the cores hashed {could:,.0f} MB/s, {hashed:,.0f} at the median")
        if reasons:
            cell = outcome.cell
            name = f"{cell.system}, {cell.load}, {size_name(cell.size)}, turn {turn.number + 1}"
            found.append(f"{name}: {'; '.join(reasons)}")
    return found
