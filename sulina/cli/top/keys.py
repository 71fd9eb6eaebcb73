"""Keys of a terminal, one by one, without waiting for a line."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_NAMES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "esc",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "ctrl-c",
}


def keys_in(text: str) -> list[str]:
    """The keys of what a terminal sent at once; other escape sequences are left out."""
    found: list[str] = []
    while text:
        name = next((each for each in _NAMES if len(each) > 1 and text.startswith(each)), text[0])
        if name == "\x1b" and len(text) > 1:
            return found  # a sequence that means nothing here
        found.append(_NAMES.get(name, name))
        text = text[len(name) :]
    return found


@contextmanager
def pressed(press: Callable[[str], None]) -> Iterator[None]:
    """Call ``press`` for each key; the terminal is as before afterwards."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    loop = asyncio.get_running_loop()

    def ready() -> None:
        for key in keys_in(os.read(fd, 1024).decode(errors="ignore")):
            press(key)

    tty.setcbreak(fd)
    loop.add_reader(fd, ready)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
