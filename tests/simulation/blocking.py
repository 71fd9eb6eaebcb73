"""Runs blocking code within the simulation, without threads.

The code blocks by ``Ask``. At a question that has no answer yet, it is left by an exception; the
loop finds the answer in virtual time, and the code is run again from its start, with all answers up
to then. So it must be deterministic, and must change nothing but by asking.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
Ask = Callable[[Callable[[], Awaitable[Any]]], Any]
"""Called by blocking code with what to await; returns its result or raises its error."""


class _Unanswered(BaseException):
    """Not an ``Exception``: the code must not handle it."""

    def __init__(self, question: Callable[[], Awaitable[Any]]) -> None:
        self.question = question


async def run_blocking(work: Callable[[Ask], _T]) -> _T:
    """Run ``work`` to its end; returns its result or raises its error."""
    answers: list[tuple[Any, Exception | None]] = []
    while True:
        try:
            return work(_ask_with(answers))
        except _Unanswered as left:
            try:
                answers.append((await left.question(), None))
            except Exception as error:
                answers.append((None, error))


def _ask_with(answers: list[tuple[Any, Exception | None]]) -> Ask:
    known = iter(answers)

    def ask(question: Callable[[], Awaitable[Any]]) -> Any:
        for value, error in known:
            if error is not None:
                raise error
            return value
        raise _Unanswered(question)

    return ask
