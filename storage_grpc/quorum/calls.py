"""Calls to one or several nodes, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from storage_grpc.node import Node
from storage_grpc.quorum.nodes import Nodes
from sulina.errors import SulinaError, Unavailable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_T = TypeVar("_T")
Call = Callable[[Node], Awaitable[_T]]
Answers = dict[str, _T | SulinaError]


async def with_deadline(clock: Clock, seconds: float, call: Awaitable[_T], who: str) -> _T:
    """The result of ``call``. Raises ``Unavailable`` after ``seconds``."""
    try:
        return await within(clock, seconds, call)
    except TimeoutError:
        raise Unavailable(f"{who} did not answer within {seconds:g} s") from None


async def ask(
    nodes: Nodes, clock: Clock, seconds: float, member: str, call: Call[_T]
) -> _T | SulinaError:
    """The answer of one member, or the error of the call. Raises nothing."""
    node = nodes.get(member)
    if node is None:
        return Unavailable(f"{member} is not a known storage node")
    try:
        return await with_deadline(clock, seconds, call(node), member)
    except SulinaError as error:
        return error


async def ask_all(
    nodes: Nodes,
    clock: Clock,
    seconds: float,
    members: Iterable[str],
    call: Call[_T],
    enough: Callable[[Answers[_T]], bool],
) -> Answers[_T]:
    """Call all members at once; returns when the answers are ``enough``, or when all have answered.

    A member that hangs delays nothing if its answer is not needed. All calls share one timer: a
    new owner of a thousand topics makes thousands of them.
    """
    answers: Answers[_T] = {}
    asking: dict[asyncio.Future[_T], str] = {}
    for member in members:
        node = nodes.get(member)
        if node is None:
            answers[member] = Unavailable(f"{member} is not a known storage node")
        else:
            asking[asyncio.ensure_future(call(node))] = member
    timer = asyncio.ensure_future(clock.sleep(seconds))
    waiting: set[asyncio.Future[Any]] = set(asking)
    try:
        while waiting and not timer.done() and not enough(answers):
            await asyncio.wait({*waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
            # In the order of the ensemble, so that a simulation repeats exactly.
            for task, member in asking.items():
                if task in waiting and task.done():
                    outcome = _outcome(task)
                    answers[member] = outcome
                    waiting.discard(task)
        if timer.done():
            late = {asking[task] for task in waiting}
            for member in asking.values():
                if member in late:
                    answers[member] = Unavailable(f"{member} did not answer within {seconds:g} s")
    finally:
        timer.cancel()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, timer, return_exceptions=True)
    return answers


def _outcome(task: asyncio.Future[_T]) -> _T | SulinaError:
    if task.cancelled():
        return UnknownOutcome("the call was cancelled")
    error = task.exception()
    if isinstance(error, SulinaError):
        return error
    return task.result()
