"""Checks with other brokers whether a broker that does not answer still owns its topics.

A frozen process keeps its connections open, so a client cannot tell it from a slow broker. Other
brokers can: once its lease has expired they own its topics. So the client looks up one of the
topics at another broker. If a different broker serves it, the silent connection is closed, and its
producers and consumers reconnect elsewhere. Until then it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from sulina.client.connection import Connection
from sulina.client.pool import Pool
from sulina.client.topics import look_up_at
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Runtime
from sulina.runtime.tasks import stop_tasks

_BETWEEN: Final = 0.5
"""Seconds between two lookups."""
_DIAL: Final = 2.0
"""Seconds to connect to the reported owner."""


class SilentBrokerCheck:
    """Checks the silent connections of a pool, one lookup at a time each, until ``close``."""

    def __init__(self, pool: Pool, runtime: Runtime) -> None:
        self._pool = pool
        self._runtime = runtime
        self._asking: dict[Connection, asyncio.Task[None]] = {}
        pool.on_silence = self._silent

    async def close(self) -> None:
        """Stop all checks."""
        await stop_tasks(*self._asking.values())

    def _silent(self, connection: Connection) -> None:
        if connection not in self._asking:
            task = asyncio.create_task(self._ask(connection))
            self._asking[connection] = task
            task.add_done_callback(lambda _: self._asking.pop(connection, None))

    async def _ask(self, connection: Connection) -> None:
        while connection.silent:
            with contextlib.suppress(SulinaError):  # no other broker knows better
                if await self._moved(connection) and connection.silent:
                    reason = (
                        f"{connection.address} does not answer and other brokers serve its topics"
                    )
                    connection.end(Unavailable(reason), politely=False)
            await self._runtime.clock.sleep(_BETWEEN)

    async def _moved(self, connection: Connection) -> bool:
        """Whether another broker serves a topic of this connection by now."""
        users = (*connection.producers.values(), *connection.consumers.values())
        if not users:
            return False
        other = await self._pool.other(connection.address)
        address = await look_up_at(other, users[0].topic)
        # A broker may have several addresses: compare broker ids, not addresses.
        owner = other
        if address is not None:
            try:
                owner = await within(self._runtime.clock, _DIAL, self._pool.to(address))
            except TimeoutError:
                return False  # perhaps the silent broker, at another of its addresses
        return owner.broker_id != connection.broker_id
