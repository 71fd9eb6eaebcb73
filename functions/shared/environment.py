"""Reads a function's environment variables."""

from __future__ import annotations

import os

from sulina.errors import Refused


def required(name: str) -> str:
    """The variable's value. Raises ``Refused`` if it is not set."""
    found = os.environ.get(name, "")
    if not found:
        raise Refused(f"{name} is not set: see the function's README for its value")
    return found


def optional(name: str, default: str = "") -> str:
    """The variable's value, or ``default`` if it is unset or empty."""
    return os.environ.get(name) or default


def flag(name: str) -> bool:
    """Whether the variable is ``yes``; unset means ``no``. Raises ``Refused`` for other values."""
    text = optional(name, "no").lower()
    if text not in ("yes", "no"):
        raise Refused(f"{name} is {text!r} but must be yes or no")
    return text == "yes"
