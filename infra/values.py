"""Reads the values of a stack's configuration, one kind of value a method.

Pulumi keeps every value as text. Each method says what it wanted, if it did not get it, and with
which command to mend it; what was not asked for is refused at the end, so that a name with a typing
error is not silently ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from infra.wrong import Wrong

PROJECT = "sulina"


class Values:
    """The values of one stack, by names without the project's prefix."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._asked: set[str] = set()

    def text(self, name: str, default: str = "", pattern: str = "", wanted: str = "") -> str:
        """A text that matches ``pattern`` as a whole; ``wanted`` says so in words."""
        value = self._value(name)
        if value is None:
            return default
        if pattern and not re.fullmatch(pattern, value):
            raise self.wrong(name, f"must be {wanted}")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        value = self._value(name)
        if value is None:
            return default
        try:
            found = int(value)
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            raise self.wrong(name, f"must be a whole number from {least:,} to {most:,}")
        return found

    def share(self, name: str, default: float) -> float:
        """A number above 0 and below 1."""
        value = self._value(name)
        if value is None:
            return default
        try:
            found = float(value)
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise self.wrong(name, "must be a number between 0 and 1, such as 0.6")
        return found

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self._value(name)
        if value is None:
            return default
        if value not in ("true", "false"):
            raise self.wrong(name, "must be true or false")
        return value == "true"

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """One of some words."""
        value = self._value(name)
        if value is None:
            return default
        if value not in allowed:
            raise self.wrong(name, f"must be one of {', '.join(allowed)}")
        return value

    def listing(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Words divided by commas."""
        value = self._value(name)
        if value is None:
            return default
        return tuple(each.strip() for each in value.split(",") if each.strip())

    def networks(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Blocks of addresses divided by commas."""
        found = self.listing(name, default)
        for each in found:
            try:
                ipaddress.IPv4Network(each)
            except ValueError:
                wanted = "must be blocks of IPv4 addresses divided by commas, such as 10.0.0.0/8"
                raise self.wrong(name, wanted) from None
        return found

    def end(self) -> None:
        """Raises ``Wrong`` if something was given that nobody asked for."""
        unknown = sorted(self._given.keys() - self._asked)
        if unknown:
            raise Wrong(
                f"{PROJECT}:{unknown[0]} is no setting of Sulina: remove it with "
                f"`pulumi config rm {PROJECT}:{unknown[0]}`, or choose from "
                f"{', '.join(sorted(self._asked))}"
            )

    def wrong(self, name: str, wanted: str) -> Wrong:
        """What to raise about a value."""
        value = self._given.get(name)
        now = "not set" if value is None else repr(value)
        return Wrong(
            f"{PROJECT}:{name} is {now} and {wanted}: set it with "
            f"`pulumi config set {PROJECT}:{name} <value>`"
        )

    def _value(self, name: str) -> str | None:
        self._asked.add(name)
        return self._given.get(name)
