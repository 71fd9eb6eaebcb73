"""Options of a command as the fields of a dataclass: each is declared once, where its value is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, field, fields
from functools import wraps
from typing import Any

import click

Command = Callable[..., Any]


def option(default: Any, text: str, /, *, flag: str = "", **attributes: Any) -> Any:
    """A field that is an option, named like the field unless ``flag`` names it.

    The help shows ``default`` unless it is empty. ``attributes`` are those of ``click.option``.
    """
    if default is False:
        attributes["is_flag"] = True
    elif default not in (None, ()):
        attributes = {"default": default, "show_default": default != "", **attributes}
    return field(default=default, metadata={"flag": flag, "help": text, **attributes})


def group(kind: type[Any]) -> Any:
    """A field with further options, which are the fields of ``kind``."""
    return field(kw_only=True, metadata={"group": kind})


def options(kind: type[Any]) -> Callable[[Command], Command]:
    """Add the options that ``kind`` declares; the command gets a ``kind`` as ``options``."""

    def add(command: Command) -> Command:
        @wraps(command)  # keeps the options that it already has
        def with_options(*positional: Any, **named: Any) -> Any:
            return command(*positional, options=_taken(kind, named), **named)

        made: Command = with_options
        for each in reversed(list(_declared(kind))):
            attributes = dict(each.metadata)
            flag = attributes.pop("flag") or f"--{each.name.replace('_', '-')}"
            made = click.option(flag, each.name, **attributes)(made)
        return made

    return add


def _declared(kind: type[Any]) -> Iterator[Field[Any]]:
    for each in fields(kind):
        if "group" in each.metadata:
            yield from _declared(each.metadata["group"])
        else:
            yield each


def _taken(kind: type[Any], named: dict[str, Any]) -> Any:
    """A ``kind`` with its values, which are removed from ``named``."""
    values = {}
    for each in fields(kind):
        inner = each.metadata.get("group")
        values[each.name] = named.pop(each.name) if inner is None else _taken(inner, named)
    return kind(**values)
