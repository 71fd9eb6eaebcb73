"""Conversion of arguments to values: topics, positions, times, attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import click

from sulina.errors import Refused
from sulina.model import Start, SubscriptionType
from sulina.names import TopicName, check_namespace
from sulina.wire.compression import Compression

_C = TypeVar("_C", bound=Callable[..., Any])
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def topic_name(value: str) -> str:
    """A topic's name, as ``/namespace/topic``."""
    try:
        return str(TopicName.parse(value))
    except Refused as error:
        raise click.BadParameter(str(error)) from None


def namespace_name(value: str) -> str:
    """A namespace's name."""
    try:
        return check_namespace(value)
    except Refused as error:
        raise click.BadParameter(str(error)) from None


def limit(value: str) -> tuple[str, int | bool]:
    """A limit as NAME=VALUE; the value is a whole number, true or false."""
    name, separator, text = value.partition("=")
    if not separator or not (text.isdigit() or text in ("true", "false")):
        raise click.BadParameter(
            f"{value!r} is not a limit: write NAME=VALUE, as in retention_ms=86400000"
        )
    return name, int(text) if text.isdigit() else text == "true"


def position(value: str | Start) -> Start:
    """A start position: ``latest``, ``earliest``, an offset or a time."""
    if isinstance(value, Start):
        return value
    if value == "latest":
        return Start.latest()
    if value == "earliest":
        return Start.earliest()
    if value.isascii() and value.isdigit():
        return Start.offset(int(value))
    try:
        begin = moment(value)
    except click.BadParameter:
        raise click.BadParameter(
            f"{value!r} is not a position: write latest, earliest, an offset such as 1200, "
            "or a time such as 2026-05-01T12:30:00Z"
        ) from None
    return Start.time(round(begin.timestamp() * 1_000_000))


def moment(value: str) -> datetime:
    """A time; without a time zone it is local time."""
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is not a time: write one such as 2026-05-01T12:30:00Z"
        ) from None


def duration(value: str) -> timedelta:
    """A duration: a number followed by s, m, h or d."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", value, re.ASCII)
    try:
        if found is not None:
            return float(found[1]) * _UNITS[found[2]]
    except OverflowError:
        pass
    raise click.BadParameter(f"{value!r} is not a duration: write one such as 90s, 15m, 2h or 7d")


def attribute(value: str) -> tuple[str, str]:
    """``name=value``."""
    name, sign, text = value.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{value!r} is not an attribute: write name=value")
    return name, text


COUNT: Final = click.IntRange(min=1)
NUMBER: Final = click.IntRange(min=0)
POSITIVE: Final = click.FloatRange(min=0, min_open=True)
START_METAVAR: Final = "latest|earliest|OFFSET|TIME"
compression_option = click.option(
    "--compression",
    type=click.Choice([each.name.lower() for each in Compression]),
    default="none",
    show_default=True,
    help="Compression of message batches.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def subscription_options(type_help: str, start_help: str) -> Callable[[_C], _C]:
    """``--type`` and ``--from`` of a subscription, as ``type_`` and ``start``."""
    types = click.Choice([each.value for each in SubscriptionType])
    type_option = click.option(
        "--type", "type_", type=types, default="exclusive", show_default=True, help=type_help
    )
    start_option = click.option(
        "--from",
        "start",
        type=position,
        default="latest",
        metavar=START_METAVAR,
        show_default=True,
        help=start_help,
    )
    return lambda command: type_option(start_option(command))
