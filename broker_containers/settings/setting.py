"""One setting that can change while brokers run: its description and the values it accepts.

The metadata stores a value as text. ``parse`` reads text with units (``64MiB``, ``500ms``) or JSON
and checks it; ``text`` writes a value so that ``parse`` returns the same value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from broker_containers.load.rules import PlacementRule
from broker_containers.settable import SettingEffect, SettingScope, SettingType
from sulina.errors import Refused

_UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "bytes": {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    | {"kB": 10**3, "MB": 10**6, "GB": 10**9},
    "seconds": {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400},
    "milliseconds": {"": 1, "ms": 1, "s": 1000, "m": 60_000},
    "": {"": 1},
}
_NUMBER: Final = re.compile(r"\s*([+-]?[0-9_]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_LONGEST: Final = 64 << 10
_DIGITS: Final = 100
_MOST: Final = 1e18


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. ``path`` is where its value is in ``LiveSettings``."""

    name: str
    path: tuple[str, ...]
    kind: SettingType
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    scope: SettingScope = SettingScope.BROKER
    effect: SettingEffect = SettingEffect.NOW

    @property
    def allowed(self) -> str:
        """The accepted values, as text."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.low is None:
            return self.kind.value
        top = "up" if self.high is None else f"to {self.write(self.high)}"
        return f"{self.kind.value} from {self.write(self.low)} {top}"

    def parse(self, given: Any) -> Any:
        """The value of ``given``, which is text or JSON. Raises ``Refused``."""
        if isinstance(given, str) and len(given) > _LONGEST:
            raise Refused(f"the value of {self.name} is longer than {_LONGEST} characters")
        match self.kind:
            case SettingType.WHOLE | SettingType.NUMBER:
                return self._number(given)
            case SettingType.FLAG:
                words = {"true": True, "false": False, "yes": True, "no": False}
                found = given if isinstance(given, bool) else words.get(str(given).lower())
                if found is None:
                    raise self._wrong(given)
                return found
            case SettingType.CHOICE:
                if str(given).lower() not in self.choices:
                    raise self._wrong(given)
                return self.choices[self.choices.index(str(given).lower())]
            case SettingType.PATTERNS:
                return self._patterns(given)
            case SettingType.RULES:
                return self._rules(given)

    def text(self, value: Any) -> str:
        """A value as it is stored."""
        if self.kind is SettingType.FLAG:
            return "true" if value else "false"
        if self.kind is SettingType.PATTERNS:
            return ",".join(value)
        if self.kind is SettingType.RULES:
            return json.dumps([asdict(rule) for rule in value])
        return str(value)

    def plain(self, value: Any) -> Any:
        """A value as a JSON value."""
        if self.kind is SettingType.RULES:
            return [asdict(rule) for rule in value]
        return list(value) if self.kind is SettingType.PATTERNS else value

    def write(self, value: Any) -> str:
        """A value for display, with its unit."""
        if self.kind is SettingType.PATTERNS or self.kind is SettingType.RULES:
            return self.text(value) if value else "none"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.text(value)
        if self.unit == "bytes":
            for unit in ("GiB", "MiB", "KiB"):
                size = int(_UNITS["bytes"][unit])
                if value >= size and value % size == 0:
                    return f"{int(value) // size:,} {unit}"
        short = {"seconds": " s", "milliseconds": " ms", "bytes": " bytes"}.get(self.unit, "")
        return f"{value:,.12g}{short}"

    def _number(self, given: Any) -> int | float:
        units = {unit.lower(): size for unit, size in _UNITS[self.unit].items()}
        if isinstance(given, bool):
            raise self._wrong(given)
        if isinstance(given, int | float):
            value: float = given
        else:
            match = _NUMBER.fullmatch(given[:_DIGITS]) if isinstance(given, str) else None
            if match is None or match[2].lower() not in units:
                raise self._wrong(given)
            digits = match[1].replace("_", "")
            # int keeps large whole numbers exact.
            plain = int(digits) if digits.lstrip("+-").isdigit() else float(digits)
            value = plain * units[match[2].lower()]
        if not -_MOST < value < _MOST:  # also rejects NaN
            raise self._wrong(given)
        if self.kind is SettingType.WHOLE and value != int(value):
            raise self._wrong(given)
        if (self.low is not None and value < self.low) or (
            self.high is not None and value > self.high
        ):
            raise self._wrong(given)
        return int(value) if self.kind is SettingType.WHOLE else float(value)

    def _patterns(self, given: Any) -> tuple[str, ...]:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
            raise self._wrong(given)
        return tuple(part.strip() for part in parts if part.strip())

    def _rules(self, given: Any) -> tuple[PlacementRule, ...]:
        try:
            parts = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            raise self._wrong(given) from None
        if not isinstance(parts, Sequence) or isinstance(parts, str):
            raise self._wrong(given)
        return tuple(PlacementRule.from_dict(part) for part in parts)

    def _wrong(self, given: Any) -> Refused:
        units = [unit for unit in _UNITS[self.unit] if unit]
        hint = f" (units: {', '.join(units)})" if units else ""
        return Refused(f"invalid value for {self.name}: {given!r:.60} is not {self.allowed}{hint}")
