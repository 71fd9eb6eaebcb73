"""Sends the acknowledgements of one partition and keeps them until the broker confirms them.

What was unconfirmed when a connection is lost is sent again over the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from sulina.client.acks import Acks
from sulina.client.connection import Answer, Connection
from sulina.client.retry import may_retry
from sulina.errors import SulinaError
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command

_MOST_UNCONFIRMED: Final = 16
_MOST_COLLECTED: Final = 10_000


class AckSender:
    """``collected`` holds what the application acknowledged; :meth:`send` sends it. ``broke`` is
    called with a temporary error of the broker."""

    def __init__(self, broke: Callable[[SulinaError], None]) -> None:
        self.collected = Acks()
        self._broke = broke
        self._connection: Connection | None = None
        self._handle = 0
        self._attachment = 0
        self._unconfirmed: dict[int, pb.Ack] = {}
        self._last = 0
        self._refusal: SulinaError | None = None
        self._end: SulinaError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def attach(self, connection: Connection, handle: int) -> None:
        """Use a new handle: send everything unconfirmed again, then what is new."""
        self._connection, self._handle = connection, handle
        for number, ack in self._unconfirmed.items():
            self._send(number, ack)
        self.send()

    def detach(self) -> None:
        """The handle is gone. Answers that still arrive belong to it and are ignored."""
        self._connection = None
        self._attachment += 1
        self._wake()

    def fail(self, error: SulinaError) -> None:
        """There will be no new handle; waiting calls raise ``error``."""
        self._end = error
        self._wake()

    def send(self) -> None:
        """Send what was collected. If too much is unconfirmed, it is sent later."""
        if self._connection is None or len(self._unconfirmed) >= _MOST_UNCONFIRMED:
            return
        for ack in self.collected.take():
            self._last += 1
            self._unconfirmed[self._last] = ack
            self._send(self._last, ack)

    def _send(self, number: int, ack: pb.Ack) -> None:
        if self._connection is not None:
            ack.consumer = self._handle
            answered = partial(self._confirmed, number, self._attachment)
            self._connection.ask(Command.ACK, ack, answered)

    def _confirmed(self, number: int, attachment: int, answer: Answer) -> None:
        if attachment != self._attachment:
            return
        if isinstance(answer, SulinaError):
            if may_retry(answer):
                self._broke(answer)
                return
            self._refusal = answer
        self._unconfirmed.pop(number, None)
        if self.collected:
            self.send()
        self._wake()

    async def room(self) -> None:
        """Wait while the broker is far behind with confirming acknowledgements."""
        collected = self.collected
        while (
            self._connection is not None
            and len(self._unconfirmed) >= _MOST_UNCONFIRMED
            and collected.records + collected.batches >= _MOST_COLLECTED
        ):
            await self._change()

    async def flush(self) -> None:
        """Wait until the broker has confirmed everything collected so far, without a timeout.

        Raises the broker's error if it refused an acknowledgement, and the error of :meth:`fail`.
        """
        self.send()
        last = self._last
        while self.collected or (self._unconfirmed and next(iter(self._unconfirmed)) <= last):
            if self._end is not None:
                raise self._end.with_traceback(None)
            await self._change()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
