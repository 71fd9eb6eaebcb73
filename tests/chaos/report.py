"""What came of it: faults by kind, pauses, records, broken promises; for people and as JSON."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Round:
    """One fault, or two at once, and what it did to producers."""

    at: float
    kinds: tuple[str, ...]
    whom: tuple[str, ...]
    seconds: float
    """From its beginning until it was undone."""
    pause: float
    """The longest that a producer waited for an acknowledgement."""
    whose: str = ""
    """That producer, and its topic."""

    @property
    def kind(self) -> str:
        return self.kinds[0] if len(self.kinds) == 1 else "two at once"

    def __str__(self) -> str:
        both = [f"{kind} ({who})" for kind, who in zip(self.kinds, self.whom, strict=True)]
        return (
            f"{self.at:7.1f} s  {' and '.join(both)}, for {self.seconds:.1f} s: "
            f"the longest pause was {self.pause:.2f} s, of {self.whose}"
        )


@dataclass(slots=True)
class Report:
    """Of one run."""

    seed: int
    lease_seconds: int
    seconds: float = 0.0
    sent: int = 0
    acknowledged: int = 0
    consumed: int = 0
    """Records that consumers acknowledged, for each subscription once."""
    failed_publishes: int = 0
    rounds: list[Round] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Number of faults, and pauses in seconds."""
        pauses: dict[str, list[float]] = defaultdict(list)
        for each in self.rounds:
            pauses[each.kind].append(each.pause)
        return {
            kind: {
                "count": len(found),
                "p50": quantile(found, 0.5),
                "p99": quantile(found, 0.99),
                "max": max(found),
            }
            for kind, found in sorted(pauses.items())
        }

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "seed": self.seed,
            "lease_seconds": self.lease_seconds,
            "seconds": self.seconds,
            "records": {
                "sent": self.sent,
                "acknowledged": self.acknowledged,
                "consumed": self.consumed,
            },
            "failed_publishes": self.failed_publishes,
            "pauses": self.by_kind(),
            "faults": [
                {
                    "at": each.at,
                    "kinds": each.kinds,
                    "whom": each.whom,
                    "seconds": each.seconds,
                    "pause": each.pause,
                    "whose": each.whose,
                }
                for each in self.rounds
            ],
            "violations": self.violations,
        }

    def show(self, console: Console) -> None:
        """For people."""
        table = Table(title=f"seed {self.seed}, lease {self.lease_seconds} s", title_justify="left")
        for heading in ("fault", "times", "pause p50", "p99", "max"):
            table.add_column(heading, justify="left" if heading == "fault" else "right")
        for kind, found in self.by_kind().items():
            figures = (f"{found[name]:.2f} s" for name in ("p50", "p99", "max"))
            table.add_row(kind, str(int(found["count"])), *figures)
        console.print(table)
        console.print(
            f"{self.sent:,} records sent, {self.acknowledged:,} sends acknowledged, "
            f"{self.consumed:,} consumed, {self.failed_publishes} publishes failed, "
            f"{len(self.rounds)} rounds in {self.seconds:.0f} s"
        )
        for violation in self.violations:
            console.print(f"[bold red]VIOLATION[/] {escape(violation)}", markup=True)
        if not self.violations:
            console.print("nothing acknowledged was lost, altered, repeated or out of order")


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
