"""Settings that can change while brokers run, as fields of dataclasses.

Each is declared once: its default, what it does, and the values it accepts. ``settings`` collects
these declarations, and reads, stores and applies the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import Any, Final

DAY: Final = 86_400.0
YEAR: Final = 365 * DAY


class SettingType(StrEnum):
    """The type of a setting's value."""

    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    CHOICE = "one of a list"
    PATTERNS = "patterns separated by commas"
    RULES = "a JSON list of placement rules"


class SettingScope(StrEnum):
    """What a setting can be set for."""

    BROKER = "broker"
    """All brokers, or a single one."""
    CLUSTER = "cluster"
    """All brokers only: the leader uses it, and any broker may become the leader."""


class SettingEffect(StrEnum):
    """When a change takes effect."""

    NOW = "immediately"
    ROUND = "at the next interval"
    CONNECTION = "for new connections"
    RESTART = "after a restart"


NOW: Final = (SettingScope.BROKER, SettingEffect.NOW)
NEW: Final = (SettingScope.BROKER, SettingEffect.CONNECTION)
ROUND: Final = (SettingScope.BROKER, SettingEffect.ROUND)
RESTART: Final = (SettingScope.BROKER, SettingEffect.RESTART)
ALL: Final = (SettingScope.CLUSTER, SettingEffect.ROUND)
ALL_NOW: Final = (SettingScope.CLUSTER, SettingEffect.NOW)


def setting(
    kind: SettingType,
    unit: str,
    default: Any,
    low: float | None,
    high: float | None,
    reach: tuple[SettingScope, SettingEffect],
    help: str,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field that can be set while brokers run; ``reach`` is where and when that takes effect."""
    about = {"kind": kind, "unit": unit, "help": help, "low": low, "high": high}
    where = {"choices": choices, "scope": reach[0], "effect": reach[1]}
    return field(default=default, metadata={"setting": {**about, **where}})


bytes = partial(setting, SettingType.WHOLE, "bytes")
count = partial(setting, SettingType.WHOLE, "")
number = partial(setting, SettingType.NUMBER, "")
seconds = partial(setting, SettingType.NUMBER, "seconds")
whole_seconds = partial(setting, SettingType.WHOLE, "seconds")
milliseconds = partial(setting, SettingType.NUMBER, "milliseconds")


def _without_range(kind: SettingType) -> Callable[..., Any]:
    def declare(
        default: Any,
        reach: tuple[SettingScope, SettingEffect],
        help: str,
        choices: tuple[str, ...] = (),
    ) -> Any:
        return setting(kind, "", default, None, None, reach, help, choices)

    return declare


flag = _without_range(SettingType.FLAG)
choice = _without_range(SettingType.CHOICE)
patterns = _without_range(SettingType.PATTERNS)
rules = _without_range(SettingType.RULES)
