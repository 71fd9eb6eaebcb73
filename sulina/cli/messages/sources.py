"""The input of ``sulina produce``: arguments, lines or whole files, limited in count and rate."""

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

from sulina.cli.pipes import MAX_LINE, lines_of
from sulina.cli.settings import CliSettings
from sulina.errors import TooLarge
from sulina.runtime.threads import in_daemon

_STDIN: Final = "-"
_REPEATED: Final = 1000
"""Approximate batch size for repeated arguments."""
_SLICE_SECONDS: Final = 0.02
"""With a rate, messages due within this time are published together."""


class MessageSource:
    """The messages, read only as fast as they are published."""

    def __init__(
        self, messages: Sequence[str], files: Sequence[str], *, whole_file: bool, repeat: bool
    ) -> None:
        # Bytes that are not UTF-8 pass through unchanged.
        self._messages = list(map(os.fsencode, messages))
        self._files = list(files) or ([] if messages else [_STDIN])
        self._whole_file = whole_file
        self._repeat = repeat
        self.done = 0
        """How much was read: bytes, or messages where they are arguments."""

    @property
    def total(self) -> int | None:
        """The final value of ``done``; None where it is unknown."""
        if self._messages:
            return len(self._messages)
        sizes = [_regular_size(name) for name in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def hint(self, settings: CliSettings) -> None:
        """Say on a terminal that input is expected."""
        if self._files == [_STDIN] and sys.stdin.isatty() and not settings.json:
            click.echo("type messages, one per line; end with Ctrl-D", err=True)

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """The messages in batches."""
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
    """The first ``count`` messages, reading no further; all of them if it is None."""
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
    """Delays messages to keep a steady rate; None does not delay."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate

    async def paced(self, batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        """The same messages, delayed to keep the rate."""
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
                # After a pause in the input, do not catch up with a burst.
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
                f"{name} is larger than {MAX_LINE >> 20} MiB, the maximum size of a message"
            )
    return b"".join(parts)
