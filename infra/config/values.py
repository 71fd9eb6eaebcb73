"""Reads and checks the values of a stack's configuration.

Pulumi stores every value as text. There is one method per type of value; its error says what is
expected and which command sets it. ``end`` rejects names that no method has read, so that a
misspelled setting is not silently ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from infra.errors import DeploymentError

PROJECT = "sulina"
_T = TypeVar("_T")


class Values:
    """The values of one stack, by name without the project's prefix."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._read: set[str] = set()

    def text(self, name: str, default: str = "", pattern: str = "", wanted: str = "") -> str:
        """Text that fully matches ``pattern``; ``wanted`` describes the pattern in the error."""
        return self._checked(
            name,
            default,
            lambda value: value if not pattern or re.fullmatch(pattern, value) else None,
            f"must be {wanted}",
        )

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number from ``lowest`` to ``highest``."""
        return self._checked(
            name,
            default,
            lambda value: found if lowest <= (found := int(value)) <= highest else None,
            f"must be a whole number from {lowest:,} to {highest:,}",
        )

    def fraction(self, name: str, default: float) -> float:
        """A number greater than 0 and less than 1."""
        return self._checked(
            name,
            default,
            lambda value: found if 0 < (found := float(value)) < 1 else None,
            "must be a number between 0 and 1, such as 0.6",
        )

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        known = {"true": True, "false": False}
        return self._checked(name, default, known.get, "must be true or false")

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """One of the values in ``allowed``."""
        known = {value: value for value in allowed}
        return self._checked(name, default, known.get, f"must be one of {', '.join(allowed)}")

    def listing(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A comma-separated list."""
        value = self._value(name)
        if value is None:
            return default
        return tuple(each.strip() for each in value.split(",") if each.strip())

    def networks(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A comma-separated list of IPv4 networks, as AWS writes them, each once."""
        try:
            found = [str(ipaddress.IPv4Network(each)) for each in self.listing(name, default)]
        except ValueError:
            wanted = "must be a comma-separated list of IPv4 networks, such as 10.0.0.0/8"
            raise self.error(name, wanted) from None
        return tuple(dict.fromkeys(found))

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

    def _checked(
        self, name: str, default: _T, parse: Callable[[str], _T | None], wanted: str
    ) -> _T:
        """The parsed value; an error if ``parse`` returns None or raises ``ValueError``."""
        value = self._value(name)
        if value is None:
            return default
        with suppress(ValueError):
            if (found := parse(value)) is not None:
                return found
        raise self.error(name, wanted)

    def _value(self, name: str) -> str | None:
        self._read.add(name)
        return self._given.get(name)
