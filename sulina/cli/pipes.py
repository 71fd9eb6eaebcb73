"""Standard input and output beside an event loop that must not wait for them.

A read from a terminal or a write to a full pipe may take for ever. So it happens in a daemon
thread, one call at a time, and Ctrl-C ends the process even while such a call hangs.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, TypeVar

from sulina.errors import TooLarge

_T = TypeVar("_T")

_CHUNK: Final = 256 << 10
MAX_LINE: Final = 16 << 20
"""No frame can be larger, so a longer line could not be sent anyway."""


async def in_daemon(call: Callable[[], _T]) -> _T:
    """The result of a blocking call, made in a thread that no exit waits for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return  # cancelled meanwhile
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # _T where there is no error

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, daemon=True).start()
    return await future


async def lines_of(fd: int, read: Callable[[int], None]) -> AsyncIterator[list[bytes]]:
    """The lines that can be read from ``fd``, without their ends, as they come.

    Reads no more before the last lines were taken, so input never piles up. ``read`` is told how
    many bytes came. Raises ``TooLarge`` for a line longer than ``MAX_LINE``.
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
                f"a line is longer than {MAX_LINE >> 20} MiB, the most a message can have: "
                "is the input not text with a message a line?"
            )
    if pending:
        yield [b"".join(parts)]


async def write(fd: int, data: bytes) -> None:
    """Write everything. Raises ``BrokenPipeError`` when nobody reads any more."""
    # What fits in a pipe that has room can't block; a thread for each would cost more.
    if len(data) <= select.PIPE_BUF and select.select((), (fd,), (), 0)[1]:
        os.write(fd, data)
    else:
        await in_daemon(partial(_write_all, fd, data))


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def is_pipe(fd: int) -> bool:
    """Whether somebody else reads, or writes, at the other end."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def abandoned(fd: int) -> None:
    """Wait until nobody reads from the pipe ``fd`` any more, even if nothing is written."""
    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are always reported
    await in_daemon(poll.poll)
