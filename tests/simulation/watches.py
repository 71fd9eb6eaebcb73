"""Watches over the network: changes are pushed in order, with delays, and lost when a link is cut.

The server's side is a position in the store's history. The client's side either resumes after a
break, as the client of etcd does, or raises an error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from sulina.errors import SulinaError, Unavailable
from sulina.metadata.embedded.history import ChangeHistory
from sulina.metadata.store import Event
from tests.simulation.loop import SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork

_PAUSE = 0.1


class Pump:
    """Sends changes beneath a prefix since a revision. Raises ``Compacted`` if that is too old.

    Unlike a watch of the store it needs no task: the order of several depends only on the order in
    which they were created.
    """

    def __init__(
        self, history: ChangeHistory, prefix: str, from_revision: int, send: Callable[[Event], None]
    ) -> None:
        self._history = history
        self._prefix = prefix
        self._from_revision = from_revision
        self._send = send
        self._next = history.seek(from_revision)

    def go_on(self) -> None:
        """Send all new changes."""
        while self._next < self._history.end:
            event = self._history.at(self._next)
            self._next += 1
            if event.key.startswith(self._prefix) and event.mod_revision >= self._from_revision:
                self._send(event)


class SimWatch:
    """``Watch`` of one machine."""

    def __init__(
        self,
        network: SimNetwork,
        machine: SimMachine,
        server: SimEndpoint,
        prefix: str,
        from_revision: int,
        *,
        resumes: bool,
    ) -> None:
        self._network = network
        self._machine = machine
        self._server = server
        self._prefix = prefix
        self._from = from_revision
        self._seen: set[str] = set()
        """Keys of the revision ``_from`` that were received already."""
        self._resumes = resumes
        self._connection: SimConnection | None = None
        self._events: deque[Event] = deque()
        self._error: SulinaError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._events:
                return self._events.popleft()
            if self._error is not None:
                raise self._error
            if self._connection is None:
                await self._connect()
            elif not self._connection.open:
                if not self._resumes:
                    raise Unavailable("the watch broke")
                self._connection = None
                await asyncio.sleep(_PAUSE)
            else:
                await self._wait()
        raise StopAsyncIteration

    async def _connect(self) -> None:
        connection = self._network.connect(self._machine, self._server)
        self._connection = connection
        connection.on_client_side_end.append(self._wake)

        def tell(event: Event | None, error: SulinaError | None) -> None:
            if self._connection is connection:
                self._told(event, error)

        begun: asyncio.Future[None] = connection.request(
            lambda service: service.watch(self._prefix, self._from, connection, tell), ordered=True
        )
        begun.add_done_callback(_seen)

    def _told(self, event: Event | None, error: SulinaError | None) -> None:
        if event is None:
            self._error = error
        elif event.mod_revision > self._from or event.key not in self._seen:
            if event.mod_revision > self._from:
                self._from, self._seen = event.mod_revision, set()
            self._seen.add(event.key)
            self._events.append(event)
        self._wake()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def aclose(self) -> None:
        self._closed = True
        self._wake()
        if self._connection is not None:
            self._connection.close()


def _seen(answer: asyncio.Future[Any]) -> None:
    """A watch that could not begin shows as a connection that broke."""
    if not answer.cancelled():
        answer.exception()
