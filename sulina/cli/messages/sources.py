"""Where ``sulina produce`` gets its messages: arguments, lines, whole files; how many, how fast."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

import click

from sulina.cli.pipes import MAX_LINE, in_daemon, lines_of
from sulina.cli.settings import CliSettings
from sulina.errors import TooLarge

_STDIN: Final = "-"
_REPEATED: Final = 1000
"""Arguments that are repeated come in lists of about so many."""
_SLICE_SECONDS: Final = 0.02
"""At a given rate, what is due in this time goes out together."""


class MessageSource:
    """The messages, read as they are wanted and never faster."""

    def __init__(
        self, messages: Sequence[str], files: Sequence[str], *, whole_file: bool, repeat: bool
    ) -> None:
        # As the shell gave them: bytes that are no UTF-8 pass through unchanged.
        self._messages = list(map(os.fsencode, messages))
        self._files = list(files) or ([] if messages else [_STDIN])
        self._whole_file = whole_file
        self._repeat = repeat
        self.done = 0
        """How much was read: bytes, or messages where those are known from the start."""

    @property
    def total(self) -> int | None:
        """How much ``done`` will be in the end; None where only the end will tell."""
        if self._messages:
            return len(self._messages)
        sizes = [_regular_size(name) for name in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def hint(self, settings: CliSettings) -> None:
        """Tell a person in front of an empty screen what is waited for."""
        if self._files == [_STDIN] and sys.stdin.isatty() and not settings.json:
            click.echo("type messages, one a line; Ctrl-D ends", err=True)

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Messages, some at a time."""
        if self._messages:
            together = self._messages
            if self._repeat:
                together = together * max(_REPEATED // len(together), 1)
            while True:
                self.done += len(together)
                yield list(together)
                if not self._repeat:
                    return
        for name in self._files:
            fd = 0 if name == _STDIN else os.open(name, os.O_RDONLY)
            try:
                if self._whole_file:
                    yield [await in_daemon(partial(_read_whole, fd, name))]
                else:
                    async for lines in lines_of(fd, self._read):
                        yield lines
            finally:
                if fd:
                    os.close(fd)

    def _read(self, count: int) -> None:
        self.done += count


async def limited(
    batches: AsyncGenerator[list[bytes], None], count: int | None
) -> AsyncIterator[list[bytes]]:
    """The first ``count`` messages; nothing is read after them. All, if it is None."""
    async with aclosing(batches):
        left = count
        async for batch in batches:
            if left is None:
                yield batch
                continue
            yield batch[:left]
            left -= len(batch)
            if left <= 0:
                return


class Pacer:
    """Holds messages back so that they go out at a steady rate; None lets all pass at once."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate

    async def paced(self, batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        """The same messages, in time."""
        if self._rate is None:
            async for batch in batches:
                yield batch
            return
        step = max(int(self._rate * _SLICE_SECONDS), 1)
        due = 0.0
        async for batch in batches:
            for first in range(0, len(batch), step):
                part = batch[first : first + step]
                now = time.monotonic()
                # After a pause of the input the rate holds from now on: no burst to catch up.
                due = max(due, now - _SLICE_SECONDS)
                if due > now:
                    await asyncio.sleep(due - now)
                yield part
                due += len(part) / self._rate


def _regular_size(name: str) -> int | None:
    status = os.fstat(0) if name == _STDIN else Path(name).stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _read_whole(fd: int, name: str) -> bytes:
    parts: list[bytes] = []
    read = 0
    while part := os.read(fd, MAX_LINE + 1 - read):
        parts.append(part)
        read += len(part)
        if read > MAX_LINE:
            raise TooLarge(
                f"{name} is larger than {MAX_LINE >> 20} MiB, the most a message can have"
            )
    return b"".join(parts)
