"""What a function is told by its environment: text that must be there, numbers, yes and no."""

from __future__ import annotations

import os

from sulina.errors import Refused


def needed(name: str) -> str:
    """The variable's text. Raises ``Refused`` if it is not set."""
    found = os.environ.get(name, "")
    if not found:
        raise Refused(f"{name} is not set: the function's README says what it should be")
    return found


def given(name: str, default: str = "") -> str:
    """The variable's text, or what holds without it."""
    return os.environ.get(name) or default


def number(name: str, default: int) -> int:
    """A whole number from 0 on. Raises ``Refused`` for anything else."""
    text = given(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise Refused(f"{name} is {text!r} and should be a whole number, 0 or more")
    return int(text)


def wanted(name: str) -> bool:
    """Whether the variable says ``yes``; ``no``, or nothing, is False. Raises ``Refused``."""
    text = given(name, "no").lower()
    if text not in ("yes", "no"):
        raise Refused(f"{name} is {text!r} and should be yes or no")
    return text == "yes"
