"""Runs long calculations in a child process of low priority, one call at a time.

Threads of this process would share Python's interpreter lock with its event loop, which then
answers late. The child is started by the first call, and ends when none came for a while, so that
its memory is free again. Requests and answers are pickled: both sides are the same version of this
program, and nobody else can write to the pipes between them.

The child does not outlive this process, however that ends: it exits when its input does. While it
works it yields the processor to others, and is what Linux kills first when memory is short.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from sulina.errors import SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_LENGTH: Final = struct.Struct("<Q")
_IDLE_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 2.0
"""What a child has to tidy up."""
_PRIORITY: Final = 3
"""Of a child: 0 is normal, 19 the lowest."""
_KILLED_FIRST: Final = "500"

Serve = Callable[[Any], Awaitable[Any]]


class HelperProcess:
    """Calls what the function ``main`` of the module ``module`` serves with :func:`serve_calls`.

    ``setup`` is given to each child when it starts. It does not appear among its arguments, where
    other users of the machine could read it.
    """

    def __init__(
        self, module: str, setup: object, clock: Clock, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._module = module
        self._setup = _packed(setup)
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._resting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is no child."""
        return None if self._process is None else self._process.pid

    async def call(self, request: object) -> Any:
        """The child's answer. Waits for earlier calls.

        Raises the error that the child raised, and ``Unavailable`` if the child cannot be started
        or ends before it answers. If this call is cancelled, so is the work; what it has done so
        far stays.
        """
        async with self._turn:
            await stop_tasks(self._resting)
            process = await self._started()
            try:
                answer, is_error = await _asked(process, request)
            except (OSError, EOFError):
                raise Unavailable(await self._why()) from None
            except BaseException:
                await self._stop()
                raise
            self._resting = asyncio.create_task(self._rest(), name="helper-process")
        if is_error:
            raise answer
        return answer

    async def close(self) -> None:
        """End the child. Calls must have ended or be cancelled."""
        await stop_tasks(self._resting)
        await self._stop()

    async def _started(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        # Not as its main module, whose classes would be others than those that were pickled.
        command = (sys.executable, "-c", f"from {self._module} import main; main()")
        try:
            # Its own session, because Ctrl-C is for this process.
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        except OSError as error:
            raise Unavailable(
                f"a process for {self._module} cannot be started: {error.strerror}"
            ) from None
        with suppress(OSError):  # it ended already: the call tells
            await _sent(self._process, self._setup)
        return self._process

    async def _rest(self) -> None:
        await self._clock.sleep(self._idle_seconds)
        await self._stop()

    async def _why(self) -> str:
        process = self._process
        await self._stop()
        code = None if process is None else process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        short = ": was memory short?" if code == -signal.SIGKILL else ""
        return f"the process of {self._module} ended {how} before it answered{short}"

    async def _stop(self) -> None:
        """The end of its input asks a child to end; it has some seconds to tidy up."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            with suppress(TimeoutError):
                await within(self._clock, 2 * _STOP_SECONDS, process.wait())
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
        await process.wait()


async def _asked(process: Process, request: object) -> tuple[Any, bool]:
    await _sent(process, _packed(request))
    assert process.stdout is not None
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    answer, is_error = pickle.loads(await process.stdout.readexactly(length))
    return answer, is_error


async def _sent(process: Process, message: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(message)
    await process.stdin.drain()


def _packed(message: object) -> bytes:
    data = pickle.dumps(message)
    return _LENGTH.pack(len(data)) + data


# ---- the child's side ----


def serve_calls(opening: Callable[[Any], AbstractAsyncContextManager[Serve]]) -> NoReturn:
    """Answer calls until the parent ends or asks for it; for the main function of a module.

    ``opening`` gets the parent's setup, and opens what answers requests. Work that is under way at
    the end is cancelled.
    """
    os.nice(_PRIORITY)
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever is printed must not be taken for an answer
    code = 0
    try:
        asyncio.run(_serve(opening, answers))
    except asyncio.CancelledError:
        pass
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)  # without waiting for threads, whose work nobody needs


async def _serve(
    opening: Callable[[Any], AbstractAsyncContextManager[Serve]], answers: IO[bytes]
) -> None:
    requests = _Requests()
    requests.start()
    async with opening(await requests.next()) as serve:
        while True:
            request = await requests.next()
            try:
                answer: tuple[Any, bool] = await serve(request), False
            except SulinaError as error:
                answer = error, True
            answers.write(_packed(answer))  # blocks for moments: the parent waits for it


class _Requests:
    """What the parent sends, read in a thread: its end must be seen while the loop is busy."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        """At most two: the parent waits for each answer."""

    def start(self) -> None:
        """Read for the task that calls this; it is cancelled at the end of the input."""
        task = asyncio.current_task()
        assert task is not None
        parts = asyncio.get_running_loop(), task
        threading.Thread(target=self._read, args=parts, daemon=True).start()

    async def next(self) -> Any:
        """The next request, in order."""
        return await self._arrived.get()

    def _read(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        with suppress(EOFError, RuntimeError):  # the loop has ended
            while True:
                (length,) = _LENGTH.unpack(_read(_LENGTH.size))
                request = pickle.loads(_read(length))
                loop.call_soon_threadsafe(self._arrived.put_nowait, request)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(task.cancel)
        time.sleep(_STOP_SECONDS)
        os._exit(1)  # it is still busy


def _read(length: int) -> bytes:
    """Bytes of the input. Not of ``sys.stdin``, whose lock would be held at the end."""
    data = bytearray()
    while len(data) < length:
        part = os.read(0, length - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
