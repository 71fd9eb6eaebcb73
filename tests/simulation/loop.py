"""A deterministic event loop: time is virtual, and every callback belongs to a machine.

Nothing here waits: when no callback is ready, the time jumps to the next timer. Callbacks run in
the order in which they were scheduled, so a program depends on its input alone. A context variable,
which tasks and callbacks inherit, names their machine, so that a whole machine can be paused (its
callbacks wait, as with SIGSTOP) or killed (they never run, not even ``finally``).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

from sulina.errors import SulinaError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class MachineState(Enum):
    """Whether a machine runs its callbacks."""

    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


class SimMachine:
    """One simulated process. A restart is another machine with the same name."""

    __slots__ = ("context", "held", "loop", "name", "rate", "state")

    def __init__(self, loop: SimLoop, name: str, rate: float = 1.0) -> None:
        """``rate`` is the speed of its clock and timers."""
        self.loop = loop
        self.name = name
        self.rate = rate
        self.state = MachineState.RUNNING
        self.held: list[asyncio.Handle] = []
        self.context: Context = copy_context()
        self.context.run(_MACHINE.set, self)

    @property
    def alive(self) -> bool:
        """Not killed; it may be paused."""
        return self.state is not MachineState.DEAD

    def spawn(self, work: Coroutine[Any, Any, _T], name: str = "work") -> asyncio.Task[_T]:
        """Run ``work`` as a task of this machine."""
        task = self.loop.create_task(work, name=f"{self.name}/{name}", context=self.context.copy())
        task.add_done_callback(self.loop.look_at)
        return task

    def pause(self) -> None:
        if self.state is MachineState.RUNNING:
            self.state = MachineState.PAUSED
            self.loop.disturbed = True

    def resume(self) -> None:
        """Continue; callbacks that waited run now, in order."""
        if self.state is MachineState.PAUSED:
            self.state = MachineState.RUNNING
            self.loop.take_back(self)

    def kill(self) -> None:
        self.state = MachineState.DEAD
        self.loop.disturbed = True

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.name.lower()}>"


_MACHINE: ContextVar[SimMachine | None] = ContextVar("machine", default=None)
_OUTSIDE = Context()
_LEAST_DELAY = 1e-6


def this_machine() -> SimMachine | None:
    """The machine whose code runs now; None outside of all machines."""
    return _MACHINE.get()


class Stuck(Exception):
    """Nothing is ready and no timer is set, yet the work is not done."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks without threads, sockets or waiting."""

    # What BaseEventLoop keeps its callbacks in.
    _ready: Any
    _timer_cancelled_count: int
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.calendar = 1.0
        """How many seconds pass on wall clocks in a second of the run."""
        self._timers: list[tuple[float, int, Any]] = []
        """Ordered by time, then by the order of the calls."""
        self._order = 0
        self.events = 0
        """Callbacks run so far."""
        self.disturbed = False
        """Whether a machine was ever paused or killed: then every callback is checked."""
        self.errors: list[str] = []
        """Unhandled exceptions: each is a violation."""
        self._machines_held: list[SimMachine] = []
        self.lasting: frozenset[str] = frozenset()
        """Names of tasks that must not end with an error, not even a ``SulinaError``."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """All running tasks: those of dead machines must not be collected before the end."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        assert isinstance(work, Coroutine)
        task = asyncio.Task(work, loop=loop, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._task_done, context=_OUTSIDE)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.get_name() in self.lasting and not task.cancelled():
            error = task.exception()
            if error is not None:
                self.errors.append(f"the task {task.get_name()!r} ended: {error!r}")

    def task_names(self) -> set[str]:
        """The names of all running tasks."""
        return {task.get_name() for task in self._tasks}

    def time(self) -> float:
        return self._now

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")

    def look_at(self, task: asyncio.Task[Any]) -> None:
        """Check a finished task: an error that is not a ``SulinaError`` is a violation."""
        if not task.cancelled():
            error = task.exception()
            if error is not None and not isinstance(error, SulinaError):
                self.call_exception_handler({"message": task.get_name(), "exception": error})

    def take_back(self, machine: SimMachine) -> None:
        """Make the waiting callbacks of a machine ready again."""
        self._ready.extend(machine.held)
        machine.held.clear()

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        machine = _MACHINE.get()
        if machine is not None and machine.rate != 1.0:
            # At least a minimum: rounding must not fire a timer again at the same moment.
            delay = max(delay / machine.rate, _LEAST_DELAY)
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer: Any = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True
        self._order += 1
        heapq.heappush(self._timers, (when, self._order, timer))
        return cast("asyncio.TimerHandle", timer)

    def _drop_cancelled_timers(self) -> None:
        self._timer_cancelled_count = 0
        for _, _, timer in self._timers:
            if timer._cancelled:
                timer._scheduled = False
        self._timers = [each for each in self._timers if not each[2]._cancelled]
        heapq.heapify(self._timers)

    def _run_once(self) -> None:
        ready = self._ready
        if self._timer_cancelled_count > 200:
            self._drop_cancelled_timers()
        timers = self._timers
        if not ready and not self._stopping:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)[2]._scheduled = False
            if not timers:
                raise Stuck(
                    "deadlock: no callback is ready, no timer is set, and the run is not finished"
                )
            self._now = max(self._now, timers[0][0])
        now = self._now
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            ready.append(timer)
        count = len(ready)
        self.events += count
        if self.disturbed:
            self._run_disturbed(count)
            return
        for _ in range(count):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _run_disturbed(self, count: int) -> None:
        ready = self._ready
        for _ in range(count):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            machine = handle._context.get(_MACHINE)
            if machine is None or machine.state is MachineState.RUNNING:
                handle._run()
            else:
                if not machine.held:
                    self._machines_held.append(machine)
                machine.held.append(handle)

    def _write_to_self(self) -> None:
        """No threads: nothing to wake."""

    def _process_events(self, event_list: object) -> None:
        """No input from outside."""

    def finish(self) -> None:
        """Cancel all tasks on all machines, and close."""
        self.set_exception_handler(lambda loop, context: None)
        for machine in self._machines_held:
            machine.state = MachineState.RUNNING
            self.take_back(machine)
        self.disturbed = False
        for _ in range(50):
            if not self._tasks:
                break
            for task in list(self._tasks):
                task.cancel()
            self.run_until_complete(self._settle())
        self.close()

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
