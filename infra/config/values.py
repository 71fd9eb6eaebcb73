"""Reads and checks the values of a stack's configuration.

Pulumi stores every value as text. There is one method per type of value; its error says what is
expected and which command sets it. ``end`` rejects names that no method has read, so that a
misspelled setting is not silently ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from infra.errors import DeploymentError

PROJECT = "sulina"


class Values:
    """The values of one stack, by name without the project's prefix."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._read: set[str] = set()

    def text(self, name: str, default: str = "", pattern: str = "", wanted: str = "") -> str:
        """Text that fully matches ``pattern``; ``wanted`` describes the pattern in the error."""
        value = self._value(name)
        if value is None:
            return default
        if pattern and not re.fullmatch(pattern, value):
            raise self.error(name, f"must be {wanted}")
        return value

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number from ``lowest`` to ``highest``."""
        value = self._value(name)
        if value is None:
            return default
        try:
            found = int(value)
        except ValueError:
            found = lowest - 1
        if not lowest <= found <= highest:
            raise self.error(name, f"must be a whole number from {lowest:,} to {highest:,}")
        return found

    def fraction(self, name: str, default: float) -> float:
        """A number greater than 0 and less than 1."""
        value = self._value(name)
        if value is None:
            return default
        try:
            found = float(value)
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise self.error(name, "must be a number between 0 and 1, such as 0.6")
        return found

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self._value(name)
        if value is None:
            return default
        if value not in ("true", "false"):
            raise self.error(name, "must be true or false")
        return value == "true"

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """One of the values in ``allowed``."""
        value = self._value(name)
        if value is None:
            return default
        if value not in allowed:
            raise self.error(name, f"must be one of {', '.join(allowed)}")
        return value

    def listing(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A comma-separated list."""
        value = self._value(name)
        if value is None:
            return default
        return tuple(each.strip() for each in value.split(",") if each.strip())

    def networks(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A comma-separated list of IPv4 networks."""
        found = self.listing(name, default)
        for each in found:
            try:
                ipaddress.IPv4Network(each)
            except ValueError:
                wanted = "must be a comma-separated list of IPv4 networks, such as 10.0.0.0/8"
                raise self.error(name, wanted) from None
        return found

    def end(self) -> None:
        """Raises ``DeploymentError`` if a value was given that no method has read."""
        unknown = sorted(self._given.keys() - self._read)
        if unknown:
            raise DeploymentError(
                f"{PROJECT}:{unknown[0]} is not a known setting: remove it with "
                f"`pulumi config rm {PROJECT}:{unknown[0]}`, or use one of "
                f"{', '.join(sorted(self._read))}"
            )

    def error(self, name: str, wanted: str) -> DeploymentError:
        """The error to raise about a value; ``wanted`` begins with a verb such as "must be"."""
        value = self._given.get(name)
        now = "is not set" if value is None else f"is {value!r}"
        return DeploymentError(
            f"{PROJECT}:{name} {now} but {wanted}: set it with "
            f"`pulumi config set {PROJECT}:{name} <value>`"
        )

    def _value(self, name: str) -> str | None:
        self._read.add(name)
        return self._given.get(name)
