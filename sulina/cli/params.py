"""Conversion of arguments to values: topics, positions, times, attributes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import click

from sulina.cli.options import option
from sulina.errors import Refused
from sulina.model import Start, SubscriptionType
from sulina.names import TopicName, check_namespace
from sulina.wire.compression import Compression

_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_SIZES: Final = {
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
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


def limit(value: str) -> tuple[str, int | bool | None]:
    """A limit as NAME=VALUE. The value is a whole number, of a time also with s, m, h or d, and of
    a size with kB, MiB and so on; or true, false or default."""
    name, separator, text = value.partition("=")
    if text == "default" and separator:
        return name, None
    if separator and text in ("true", "false"):
        return name, text == "true"
    if separator and text.isascii() and text.isdigit():
        return name, int(text)
    found = re.fullmatch(r"([0-9]{1,15})([A-Za-z]+)", text, re.ASCII)
    if found is not None and name.endswith("_ms") and found[2] in _UNITS:
        return name, int(found[1]) * (_UNITS[found[2]] // timedelta(milliseconds=1))
    if found is not None and name.endswith(("_bytes", "_size")) and found[2] in _SIZES:
        return name, int(found[1]) * _SIZES[found[2]]
    raise click.BadParameter(
        f"{value!r} is not a limit: write NAME=VALUE, as in retention_ms=7d, retention_bytes=10GB "
        "or delete_consumed=true"
    )


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


class MemberOf(click.Choice[str]):
    """The value of a member of an enumeration; the command gets the member."""

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__([each.value for each in kind])
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> StrEnum:
        return self._kind(super().convert(value, param, ctx))


COUNT: Final = click.IntRange(min=1)
NUMBER: Final = click.IntRange(min=0)
POSITIVE: Final = click.FloatRange(min=0, min_open=True)
START_METAVAR: Final = "latest|earliest|OFFSET|TIME"
FROM: Final[Any] = {"flag": "--from", "type": position, "metavar": START_METAVAR}
"""The attributes of options that name a position."""
TYPE: Final[Any] = {"type": MemberOf(SubscriptionType), "default": "exclusive"}
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def compression_option() -> Any:
    """``--compression`` of a producer."""
    names = click.Choice([each.name.lower() for each in Compression])
    return option("none", "Compression of message batches.", type=names)
