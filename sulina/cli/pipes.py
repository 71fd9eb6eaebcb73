"""Standard input and output without blocking the event loop.

A read from a terminal or a write to a full pipe may block forever. It happens in a daemon thread,
one call at a time, so that Ctrl-C ends the process even while a call blocks.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, TypeVar

from sulina.errors import TooLarge
from sulina.runtime.threads import in_daemon

_T = TypeVar("_T")

_CHUNK: Final = 256 << 10
MAX_LINE: Final = 16 << 20
"""The largest frame: a longer line could not be published."""


async def lines_of(fd: int, read: Callable[[int], None]) -> AsyncIterator[list[bytes]]:
    """The lines read from ``fd``, without line ends, as they arrive.

    Reads on only when the previous lines were taken, so input is never buffered without bound.
    ``read`` is called with the number of bytes read. Raises ``TooLarge`` for a line longer than
    ``MAX_LINE``.
    """
    parts: list[bytes] = []
    pending = 0
    while chunk := await in_daemon(partial(os.read, fd, _CHUNK)):
        read(len(chunk))
        head, end, tail = chunk.rpartition(b"\n")
        if end:
            whole = b"".join((*parts, head)).split(b"\n")
            parts, pending = [], 0
            yield whole
        parts.append(tail)
        pending += len(tail)
        if pending > MAX_LINE:
            raise TooLarge(
                f"a line is longer than {MAX_LINE >> 20} MiB, the maximum size of a message: "
                "input must be text with one message per line"
            )
    if pending:
        yield [b"".join(parts)]


async def write(fd: int, data: bytes) -> None:
    """Write everything. Raises ``BrokenPipeError`` when the reader has closed the pipe."""
    # A write that fits into a pipe with room can't block, and needs no thread.
    if len(data) <= select.PIPE_BUF and select.select((), (fd,), (), 0)[1]:
        os.write(fd, data)
    else:
        await in_daemon(partial(_write_all, fd, data))


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def is_pipe(fd: int) -> bool:
    """Whether ``fd`` is a pipe or a socket."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def abandoned(fd: int) -> None:
    """Wait until the reader of the pipe ``fd`` has closed it, even if nothing is written."""
    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are always reported
    await in_daemon(poll.poll)
