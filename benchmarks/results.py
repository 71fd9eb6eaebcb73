"""The results of a run, and their JSON form."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cell import CellOutcome, CellResult, Load
from benchmarks.compare import Target, advantage, kept_rate, targets
from benchmarks.systems import OURS, System
from benchmarks.yardsticks import Yardsticks

FORMAT = 2


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """A measured system and its guarantees."""

    name: str
    title: str
    version: str
    synced: bool
    """Whether an acknowledged record survives a power failure."""
    durability: str
    mode: str
    settings: dict[str, str] = field(default_factory=dict)
    """The server's settings that differ from its defaults."""


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """The machine of a run."""

    processor: str
    cores: int
    memory: int
    kernel: str
    python: str
    filesystem: str


@dataclass(frozen=True, slots=True)
class RunResults:
    """All results of one run."""

    when: str
    machine: MachineInfo
    seconds: float
    systems: list[SystemInfo]
    skipped: dict[str, str]
    """Why systems were skipped, by name."""
    outcomes: list[CellOutcome]
    """One per cell: the median of its repetitions."""
    repetitions: list[CellOutcome]
    """Every repetition of every cell, in order."""
    yardsticks: Yardsticks
    noise: list[str] = field(default_factory=list)
    """Turns during which the machine was not quiet, one sentence each."""

    def measured(self, *, system: str | None = None, load: Load | None = None) -> list[CellResult]:
        """The completed cells, in order, optionally of one system or load."""
        return [
            outcome
            for outcome in self.outcomes
            if isinstance(outcome, CellResult)
            and (system is None or outcome.cell.system == system)
            and (load is None or outcome.cell.load == load)
        ]

    def ours(self, like: CellResult) -> CellResult | None:
        """Sulina's cell with the size and rate of ``like``."""
        return next(
            (
                result
                for result in self.measured(system=OURS)
                if (result.cell.size, result.cell.load) == (like.cell.size, like.cell.load)
            ),
            None,
        )

    def targets(self) -> list[Target]:
        """The evaluated targets."""
        return targets(self.measured(system=OURS), self.yardsticks)


def describe(system: System) -> SystemInfo:
    """Describe an available system. Blocks to query its version."""
    return SystemInfo(
        system.name,
        system.title,
        system.version(),
        system.synced(),
        system.durability(),
        system.mode,
        system.settings(),
    )


def this_machine(folder: Path) -> MachineInfo:
    """This machine, and the filesystem that ``folder`` is on."""
    return MachineInfo(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        memory=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        filesystem=_filesystem(folder),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _filesystem(folder: Path) -> str:
    place = folder.resolve()
    mounts = [
        partition
        for partition in psutil.disk_partitions(all=True)
        if place.is_relative_to(partition.mountpoint)
    ]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "unknown"


def to_json(results: RunResults) -> str:
    """The results as JSON, with ratios and targets."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "when": results.when,
        "machine": dataclasses.asdict(results.machine),
        "seconds_a_cell": results.seconds,
        "noise": results.noise,
        "systems": [dataclasses.asdict(system) for system in results.systems],
        "skipped": results.skipped,
        "yardsticks": dataclasses.asdict(results.yardsticks),
        "cells": [_cell(results, outcome) for outcome in results.outcomes],
        "repetitions": [dataclasses.asdict(outcome) for outcome in results.repetitions],
        "targets": [dataclasses.asdict(target) for target in results.targets()],
    }
    return json.dumps(document, indent=2)


def _cell(results: RunResults, outcome: CellOutcome) -> dict[str, Any]:
    document = dataclasses.asdict(outcome)
    if not isinstance(outcome, CellResult):
        return document
    document["records_per_s"] = outcome.records_per_s
    document["mb_per_s"] = outcome.mb_per_s
    document["kept_rate"] = kept_rate(outcome)
    ours = results.ours(outcome)
    if ours is not None and outcome.cell.system != OURS:
        document["sulina_is_better_by"] = dataclasses.asdict(advantage(ours, outcome))
    return document
