"""Tables that fit the terminal: numbers are shown whole or not at all, texts are shortened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_BETWEEN: Final = 2
_LEAST_TEXT: Final = 16
"""Columns are left out before texts become shorter than this."""
UNKNOWN: Final = "-"


class FittingTable:
    """A table that leaves out columns if the terminal is too narrow, or nothing is known of them.

    ``texts`` is the number of columns that are not numbers; they come first. ``optional`` names the
    columns that may be left out, the least important first.
    """

    def __init__(
        self, title: str, headings: Sequence[str], optional: Sequence[str] = (), *, texts: int = 1
    ) -> None:
        self._title = title
        self._headings = headings
        self._optional = optional
        self._texts = texts
        self._rows: list[tuple[tuple[Text, ...], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Missing cells at the end are empty."""
        texts = tuple(Text(each) if isinstance(each, str) else each for each in cells)
        padding = (Text(),) * (len(self._headings) - len(texts))
        self._rows.append((texts + padding, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._shown(options.max_width)
        widths = self._widths(shown, options.max_width)
        table = Table(title=self._title, title_justify="left", box=None, pad_edge=False)
        for index in shown:
            table.add_column(
                self._headings[index],
                justify="left" if index < self._texts else "right",
                no_wrap=True,
                overflow="ellipsis",
                header_style="bold",
                width=widths[index],
            )
        for cells, style in self._rows:
            table.add_row(*(cells[index] for index in shown), style=style)
        yield table

    def _natural(self, index: int) -> int:
        cells = (cells[index].cell_len for cells, _ in self._rows)
        return max(len(self._headings[index]), *cells, 1)

    def _least(self, index: int) -> int:
        natural = self._natural(index)
        return min(natural, _LEAST_TEXT) if index < self._texts else natural

    def _shown(self, room: int) -> list[int]:
        shown = [index for index in range(len(self._headings)) if not self._unknown(index)]
        for heading in self._optional:
            if sum(map(self._least, shown)) + _BETWEEN * (len(shown) - 1) <= room:
                break
            shown = [index for index in shown if self._headings[index] != heading]
        return shown

    def _unknown(self, index: int) -> bool:
        cells = [cells[index].plain for cells, _ in self._rows]
        return (
            bool(cells) and set(cells) <= {UNKNOWN, ""} and self._headings[index] in self._optional
        )

    def _widths(self, shown: Sequence[int], room: int) -> dict[int, int]:
        widths = {index: self._natural(index) for index in shown}
        texts = [index for index in shown if index < self._texts]
        excess = sum(widths.values()) + _BETWEEN * (len(shown) - 1) - room
        while excess > 0:
            widest = max(texts, key=lambda index: widths[index])
            if widths[widest] == 1:
                break
            widths[widest] -= 1
            excess -= 1
        return widths
