"""Calls to several nodes at once, each with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from storage_grpc.node import Node
from storage_grpc.quorum.nodes import Nodes
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_T = TypeVar("_T")
Call = Callable[[Node], Awaitable[_T]]
Answers = dict[str, _T | SulinaError]


async def with_deadline(clock: Clock, seconds: float, call: Awaitable[_T], who: str) -> _T:
    """What ``call`` returns; raises ``Unavailable`` if that takes longer."""
    try:
        return await within(clock, seconds, call)
    except TimeoutError:
        raise Unavailable(f"{who} did not answer within {seconds:g} s") from None


async def ask(
    nodes: Nodes, clock: Clock, seconds: float, member: str, call: Call[_T]
) -> _T | SulinaError:
    """One member's answer, or the error that came instead."""
    node = nodes.get(member)
    if node is None:
        return Unavailable(f"{member} is not there")
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
    """Ask all members at once; the answers as soon as they are ``enough``, or all there are.

    One member that hangs holds up nobody whose answer is not needed.
    """
    answers: Answers[_T] = {}
    asking = {
        asyncio.create_task(ask(nodes, clock, seconds, member, call)): member for member in members
    }
    waiting = set(asking)
    try:
        while waiting and not enough(answers):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            # In the order of the ensemble, so that a run can be repeated exactly.
            answers.update({m: task.result() for task, m in asking.items() if task in done})
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return answers
