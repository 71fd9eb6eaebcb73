"""A progress bar for long work: on a terminal, on standard error, and only if it takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from sulina.cli.settings import CliSettings

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_PATIENCE: Final = 0.5
"""Seconds before the bar appears: what is done by then needs none."""


class Progress:
    """How far a piece of work is. ``total`` is None where nobody can know."""

    def __init__(self, settings: CliSettings, doing: str, total: float | None) -> None:
        self._wanted = not settings.json and sys.stderr.isatty()
        self._doing = doing
        self._total = total
        self._began = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: float, note: str, *, total: float | None = None) -> None:
        """So much of the total is done; ``note`` stands behind the bar. Cheap without one.

        ``total`` is for work whose size shows only on the way.
        """
        if total is not None:
            self._total = total
        if not self._wanted:
            return
        if self._bar is None:
            if time.monotonic() - self._began < _PATIENCE:
                return
            self._bar = self._start()
        assert self._task is not None
        self._bar.update(self._task, total=self._total, completed=done, note=note)

    def _start(self) -> Bar:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from sulina.cli.output import console

        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        ]
        bar = Progress(*columns, console=console(stderr=True), transient=True)
        self._task = bar.add_task(self._doing, total=self._total, note="")
        bar.start()
        return bar
