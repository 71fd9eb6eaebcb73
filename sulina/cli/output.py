"""Output of commands: tables and sentences for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.failures import ExitCode
from sulina.cli.settings import CliSettings
from sulina.operations.json_types import plain
from sulina.runtime.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

    from sulina.metadata.keys.policy import Policy

_NO_TERMINAL_WIDTH: Final = 1000


def console(*, stderr: bool = False) -> Console:
    """A console for people. Output to a file or pipe is not cut to the width of a screen."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _NO_TERMINAL_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, emoji=False)


def echo(text: str | bytes, *, err: bool = False) -> None:
    """Print text. On a terminal, control characters in it are escaped."""
    if (sys.stderr if err else sys.stdout).isatty():
        text = text.decode(errors="backslashreplace") if isinstance(text, bytes) else text
        text = visible(text)
    click.echo(text, err=err)


def write_json(value: Any) -> None:
    """Print one JSON document, on one line; indented on a terminal."""
    click.echo(json.dumps(plain(value), indent=2 if sys.stdout.isatty() else None))


def shown_as_json(settings: CliSettings, value: Any) -> bool:
    """Print the value if ``--json`` was given; returns whether it was."""
    if settings.json:
        write_json(value)
    return settings.json


def say(settings: CliSettings, sentence: str, value: Any) -> None:
    """Print the result of a command: the sentence, or with ``--json`` the value."""
    if settings.json:
        write_json(value)
    else:
        echo(sentence)


def confirm(settings: CliSettings, question: str, *, yes: bool) -> None:
    """Ask on a terminal. Any answer but yes ends the command with exit code 1."""
    if yes or settings.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(question, err=True):
        click.echo("sulina: nothing was deleted", err=True)
        click.get_current_context().exit(ExitCode.FAILED)


def show_rows(
    settings: CliSettings,
    rows: Sequence[Any],
    columns: Mapping[str, str],
    *,
    nothing: str,
    readable: Callable[[Any], dict[str, Any]] | None = None,
) -> None:
    """Print rows. ``columns`` maps fields to headings; ``nothing`` is printed without rows.

    ``readable`` gives fields of a row that a table shows besides, or in place of, its own.
    """
    if settings.json:
        write_json(rows)
    elif rows:
        if readable is not None:
            rows = [{**plain(row), **readable(row)} for row in rows]
        print_table(rows, columns)
    else:
        echo(nothing)


def columns(*fields: str, **headings: str) -> dict[str, str]:
    """Columns of a table: fields with their names as headings, then fields with other headings."""
    return {field: field.replace("_", " ") for field in fields} | headings


def print_table(
    rows: Iterable[Any], columns: Mapping[str, str], *, title: str | None = None
) -> None:
    """Print a table, with text aligned left and numbers aligned right."""
    from rich.table import Table
    from rich.text import Text

    rows = plain(list(rows))
    table = Table(title=title, title_justify="left", title_style="bold")
    for field, heading in columns.items():
        number = any(_is_number(row.get(field)) for row in rows)
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(words(row.get(field))) for field in columns))
    console().print(table)


def show_fields(settings: CliSettings, value: Any, fields: Any = None) -> None:
    """Print a value: its fields or, for people, other ones; with ``--json`` the value itself."""
    if settings.json:
        write_json(value)
    else:
        print_fields(value if fields is None else fields)


def print_fields(fields: Any) -> None:
    """Print names and values, one pair per line; nested values below their name."""
    pairs: list[tuple[str, str]] = []
    for name, value in plain(fields).items():
        if isinstance(value, Mapping):
            pairs.append((name, ""))
            pairs += [(f"  {visible(inner)}", words(each)) for inner, each in value.items()]
        else:
            pairs.append((name, words(value)))
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        label = name.replace("_", " ")
        click.echo(f"{click.style(label, bold=True)}{'':{width - len(label)}}  {text}".rstrip())


_ZEROS: Final = {
    "local_retention_ms": "as tier.local_seconds says",
    "local_retention_bytes": "as tier.local_bytes says",
    "delete_unused_ms": "never",
    "tombstone_retention_ms": "for good",
    "freshness_ms": "as tier.after_seconds says",
    "merge_bytes": "as tier.merge_bytes says",
}
"""What 0 means where it is not ``no limit``."""
_SPANS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def readable_limits(limits: Policy) -> dict[str, Any]:
    """Limits for people: with units, and with what 0 means."""
    return {name: _readable_limit(name, value) for name, value in plain(limits).items()}


def _readable_limit(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not value:
        return _ZEROS.get(name, "no limit")
    shown = f"{value:,}"
    if name.endswith("_ms"):
        units = (f" ({value // long:,} {unit})" for unit, long in _SPANS if not value % long)
        return shown + next(units, "")
    return f"{shown} ({size(value)})" if name.endswith(("_bytes", "_size")) else shown


def show_limits(
    settings: CliSettings, limits: Policy, sources: Mapping[str, str] | None = None
) -> None:
    """Print the limits of a topic or namespace, under the names that set them, and who set them."""
    if shown_as_json(settings, limits):
        return
    readable = readable_limits(limits)
    width = max(map(len, readable))
    for name, value in readable.items():
        source = f"  ({sources[name]})" if sources and name in sources else ""
        click.echo(
            f"{click.style(name, bold=True)}{'':{width - len(name)}}  {words(value)}{source}"
        )


def words(value: Any) -> str:
    """A value as text for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(words, value)) or "-"
    return visible(str(value)) or "-"


def plural(count: int, noun: str) -> str:
    """``1 message``, ``2 messages``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: float) -> str:
    """A number of bytes with a fitting unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def moment(microseconds: int) -> str:
    """Microseconds since 1970 as a UTC time in ISO 8601."""
    seconds, rest = divmod(microseconds, 1_000_000)
    try:
        whole = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return str(microseconds)  # a producer can write any number
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
