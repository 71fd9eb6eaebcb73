"""One repetition of a cell, with the machine's own yardsticks around it, as a file.

Each turn is a JSON file in ``turns/`` of the results folder, so that a run can be made in slices
and continued: tables, plots and the summary are made from whatever is there.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.cell import CellFailure, CellOutcome, CellResult
from benchmarks.results import MachineInfo, SystemInfo
from benchmarks.yardsticks import YardstickReading

FOLDER = "turns"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One repetition of one cell."""

    number: int
    """Of the round, from 0."""
    when: str
    machine: MachineInfo
    system: SystemInfo
    outcome: CellOutcome
    before: YardstickReading
    after: YardstickReading


def path_of(folder: Path, key: str, number: int) -> Path:
    """The file of a turn of the cell ``key``, in the results folder ``folder``."""
    return folder / FOLDER / f"{key}-{number}.json"


def write(turn: Turn, folder: Path) -> None:
    """Write the turn into the results folder; replaces an older one of the same cell and round."""
    path = path_of(folder, turn.outcome.cell.key, turn.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(turn)) + "\n")


def read(path: Path) -> Turn:
    """A turn that was written."""
    document = json.loads(path.read_text())
    told = document.pop("outcome")
    outcome: CellOutcome = (
        from_dict(CellFailure, told) if "reason" in told else from_dict(CellResult, told)
    )
    rest = {name: from_dict(of, document[name]) for name, of in _PARTS.items()}
    return Turn(document["number"], document["when"], outcome=outcome, **rest)


def read_all(folder: Path) -> list[Turn]:
    """All turns of the results folder, in the order in which they were measured."""
    found = [read(path) for path in sorted((folder / FOLDER).glob("*.json"))]
    return sorted(found, key=lambda turn: turn.when)


def from_dict(kind: type[_T], values: dict[str, Any]) -> _T:
    """The dataclass that ``dataclasses.asdict`` made ``values`` of."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in values.items()})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next((part for part in hint.__args__ if dataclasses.is_dataclass(part)), None)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return from_dict(typing.cast(type[Any], hint), value)
    return value


_PARTS: dict[str, type[Any]] = {
    "machine": MachineInfo,
    "system": SystemInfo,
    "before": YardstickReading,
    "after": YardstickReading,
}
