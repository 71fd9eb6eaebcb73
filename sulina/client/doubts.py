"""A second opinion on a broker that has fallen silent.

A process that stands still keeps its connections, and whoever waits on one of them can't tell it
from a broker that is merely slow. Other brokers can: once its lease is over they have its topics.
So they are asked for one of the topics; when another broker serves it, the silent connection is
given up, and all producers and consumers on it go on elsewhere. Until then nothing is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from sulina.client.connection import Connection
from sulina.client.pool import Pool
from sulina.client.tasks import stop_tasks
from sulina.client.topics import look_up_at
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Runtime

_BETWEEN: Final = 0.5
"""Seconds between two questions."""
_DIAL: Final = 2.0
"""Seconds for whoever is said to be the owner to answer."""


class Doubts:
    """Asks about silent connections of a pool, one question at a time for each. ``close`` it."""

    def __init__(self, pool: Pool, runtime: Runtime) -> None:
        self._pool = pool
        self._runtime = runtime
        self._asking: dict[Connection, asyncio.Task[None]] = {}
        pool.on_silence = self._silent

    async def close(self) -> None:
        """Ask no more."""
        await stop_tasks(list(self._asking.values()))

    def _silent(self, connection: Connection) -> None:
        if connection not in self._asking:
            task = asyncio.create_task(self._ask(connection))
            self._asking[connection] = task
            task.add_done_callback(lambda _: self._asking.pop(connection, None))

    async def _ask(self, connection: Connection) -> None:
        while connection.silent:
            with contextlib.suppress(SulinaError):  # then nobody knows better
                if await self._moved(connection) and connection.silent:
                    reason = f"{connection.address} is silent, and others serve its topics"
                    connection.end(Unavailable(reason), politely=False)
            await self._runtime.clock.sleep(_BETWEEN)

    async def _moved(self, connection: Connection) -> bool:
        """Whether some topic of the connection is served by another broker by now."""
        peers = (*connection.producers.values(), *connection.consumers.values())
        if not peers:
            return False
        other = await self._pool.other(connection.address)
        address = await look_up_at(other, peers[0].topic)
        # A broker may have several addresses: who answers there counts, and not where it is.
        owner = other
        if address is not None:
            try:
                owner = await within(self._runtime.clock, _DIAL, self._pool.to(address))
            except TimeoutError:
                return False  # the silent one by another of its addresses, perhaps
        return owner.broker_id != connection.broker_id
