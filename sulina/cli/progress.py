"""A progress bar on standard error, shown on a terminal for work that takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from sulina.cli.settings import CliSettings

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_DELAY_SECONDS: Final = 0.5
"""Time before the bar appears; shorter work shows none."""


class Progress:
    """The progress of one piece of work. ``total`` is None where it is unknown."""

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
        """Update the bar; ``note`` appears after it. Cheap where no bar is shown.

        ``total`` updates the total, for work whose size becomes known later.
        """
        if total is not None:
            self._total = total
        if not self._wanted:
            return
        if self._bar is None:
            if time.monotonic() - self._began < _DELAY_SECONDS:
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
