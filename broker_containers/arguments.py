"""Arguments of administrative methods: plain JSON values, checked where they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sulina.errors import Refused

LARGEST = (1 << 63) - 1
FORWARDED = "_forwarded"
"""An argument that says: answer yourself, another broker sent this here."""

Arguments = Mapping[str, Any]
Method = Callable[[Arguments], Awaitable[Any]]


def text(arguments: Arguments, name: str) -> str:
    """A text that must be there. Raises ``Refused``."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} is missing")
    return value


def without(arguments: Arguments, name: str) -> dict[str, Any]:
    """All arguments but one."""
    return {key: value for key, value in arguments.items() if key != name}


def number(arguments: Arguments, name: str, default: int) -> int:
    """A whole number from 0 on. Raises ``Refused``."""
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise Refused(f"{name} must be a whole number from 0 to {LARGEST}, not {value!r}")
    return value


def choice(kind: Any, arguments: Arguments, name: str, default: Any) -> Any:
    """A member of the enumeration ``kind``. Raises ``Refused``."""
    value = arguments.get(name, default)
    try:
        return kind(value)
    except ValueError:
        raise Refused(
            f"{name} is one of {', '.join(item.value for item in kind)}, not {value!r}"
        ) from None
