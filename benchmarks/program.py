"""What all benchmark programs share: options, tables, JSON, plots and data folders."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
_Options = TypeVar("_Options")


def option(default: Any, text: str, *, flag: str = "", **attributes: Any) -> Any:
    """A field that ``parse`` offers as an option, named like the field unless ``flag`` names it.

    ``attributes`` are those of argparse; the type is that of ``default``, unless they name another.
    """
    return field(default=default, metadata={"flag": flag, "help": text, **attributes})


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where a benchmark writes its results."""

    out: Path = option(RESULTS, "folder for the results")  # noqa: RUF009
    json: bool = option(False, "print the JSON, and the tables on standard error")


def parse(
    kind: type[_Options],
    program: str,
    description: str | None,
    arguments: Sequence[str] | None,
    epilog: str = "",
) -> _Options:
    """Parse a command line with one option per field of ``kind``. Exits if it is invalid.

    The first line of ``description`` is shown by ``--help``. Of the options with the attribute
    ``alone``, only one may be given.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks{program and '.'}{program}",
        description=(description or "").partition("\n")[0],
        epilog=epilog,
    )
    declared = fields(kind)  # type: ignore[arg-type]
    apart = any(each.metadata.get("alone") for each in declared)
    alone = parser.add_mutually_exclusive_group() if apart else parser
    for each in declared:
        attributes = dict(each.metadata)
        flag = attributes.pop("flag") or f"--{each.name.replace('_', '-')}"
        if isinstance(each.default, bool):
            attributes["action"] = "store_false" if each.default else "store_true"
        else:
            attributes = {"type": type(each.default), "default": each.default, **attributes}
            if "(default: " not in attributes["help"]:
                attributes["help"] += " (default: %(default)s)"
        place = alone if attributes.pop("alone", False) else parser
        place.add_argument(flag, dest=each.name, **attributes)
    return kind(**vars(parser.parse_args(arguments)))


def table_of(title: str, *headings: str, caption: str | None = None, left: int = 1) -> Table:
    """An empty table; the columns after the first ``left`` ones are aligned to the right."""
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right")
    return table


def wide_console(*, stderr: bool, width: int = 140) -> Console:
    """A console that prints tables of ``width`` if the output is not a terminal."""
    console = Console(stderr=stderr)
    if not console.is_terminal:
        console.width = width
    return console


def write_document(document: str, path: Path, *, show: bool) -> None:
    """Write a JSON document to ``path`` and, with ``show``, to standard output."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document + "\n")
    if show:
        sys.stdout.write(document + "\n")


def draw(write_plot: Callable[[Path], None], path: Path, console: Console) -> None:
    """Draw a plot, if matplotlib is installed: ``write_plot`` imports it."""
    try:
        write_plot(path)
    except ImportError:
        console.print("no plot: matplotlib is not installed: `pip install 'sulina[bench]'`")
    else:
        console.print(f"written: {path}", highlight=False)


@contextmanager
def data_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in ``parent``, which is created if missing; the new one is deleted at the end.

    Its path is absolute, because servers change their working directory.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{prefix}-", dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name).resolve()
