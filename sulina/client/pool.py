"""A client's connections: one per address, opened when needed and shared."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from sulina.client.address import Address, parse_addresses
from sulina.client.connection import Connection
from sulina.client.options import ClientOptions
from sulina.errors import Closed, Refused, Retriable, SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Runtime

_CLOSING = 2.0
"""Seconds to wait for transports to close once their connections have ended."""


_MOST_LEARNED = 16


class Pool:
    """Returns live connections; at most one connection attempt per address runs at a time."""

    def __init__(
        self, addresses: tuple[Address, ...], runtime: Runtime, options: ClientOptions
    ) -> None:
        self._addresses = addresses
        self._runtime = runtime
        self._options = options
        self._learned: dict[Address, None] = {}
        self._live: dict[Address, Connection] = {}
        self._dialling: dict[Address, asyncio.Task[Connection]] = {}
        self._arrival = asyncio.Event()
        self._closed = False
        self.learns = True
        """Whether brokers that others announce are used if no configured address answers."""
        self.on_silence: Callable[[Connection], None] | None = None
        """Called with a connection whose broker leaves pings unanswered."""

    async def any(self) -> Connection:
        """A connection to one of the configured addresses: a live one, or the first that answers.

        If none does, tries other brokers that earlier ones announced. Tries each address once.
        Raises ``Unavailable``, or ``Refused`` from a broker that rejects the client.
        """
        for address in (*self._addresses, *self._learned):
            if address in self._live:
                return self._live[address]
        errors: list[SulinaError] = []
        for address in (*self._addresses, *self._learned):
            try:
                return await self.to(address)
            except Retriable as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise Unavailable("no broker could be reached: " + "; ".join(map(str, errors)))

    async def other(self, than: Address) -> Connection:
        """A connection to any other address, tried one by one. Raises ``Unavailable``."""
        known = [one for one in (*self._live, *self._addresses, *self._learned) if one != than]
        for address in dict.fromkeys(known):
            with contextlib.suppress(Retriable):
                connection = await self.to(address)
                if not connection.silent:
                    return connection
        raise Unavailable(f"no broker other than {than} could be reached")

    async def to(self, address: Address) -> Connection:
        """The connection to ``address``. Raises as :meth:`any` does."""
        closed = Closed("the client is closed")
        if self._closed:
            raise closed
        if (connection := self._live.get(address)) is not None:
            return connection
        dialling = self._dialling.get(address)
        if dialling is None:
            dialling = asyncio.create_task(self._dial(address))
            self._dialling[address] = dialling
            dialling.add_done_callback(lambda task: self._dialled(address, task))
        try:
            # Others may wait for the same attempt: cancelling one caller must not end it.
            return await asyncio.shield(dialling)
        except asyncio.CancelledError:
            if dialling.cancelled():  # only close does that
                raise closed from None
            raise

    async def _dial(self, address: Address) -> Connection:
        connection = await Connection.open(
            address, self._runtime, self._options, self._forget, self.on_silence
        )
        if connection.ended is not None:
            raise Unavailable(str(connection.ended))
        self._live[address] = connection
        self._learn(connection.brokers)
        self._arrival.set()
        self._arrival = asyncio.Event()
        return connection

    def _learn(self, urls: Sequence[str]) -> None:
        """Remember other brokers, in case all configured ones are gone."""
        for url in urls if self.learns else ():
            with contextlib.suppress(Refused):  # perhaps of a newer scheme
                for address in parse_addresses(url):
                    if address not in self._addresses:
                        self._learned.pop(address, None)
                        self._learned[address] = None
        while len(self._learned) > _MOST_LEARNED:
            del self._learned[next(iter(self._learned))]

    async def pause(self, seconds: float) -> None:
        """Wait, at most until a new connection is established: a retry may succeed then."""
        with contextlib.suppress(TimeoutError):
            await within(self._runtime.clock, seconds, self._arrival.wait())

    def _dialled(self, address: Address, task: asyncio.Task[Connection]) -> None:
        del self._dialling[address]
        if not task.cancelled():
            task.exception()  # waiters get it; if there are none, asyncio must not log it

    def _forget(self, connection: Connection) -> None:
        if self._live.get(connection.address) is connection:
            del self._live[connection.address]

    async def close(self) -> None:
        """End every connection and wait briefly until the transports are closed."""
        self._closed = True
        dialling = list(self._dialling.values())
        for task in dialling:
            task.cancel()
        if dialling:
            await asyncio.wait(dialling)
        connections = list(self._live.values())
        for connection in connections:
            connection.end(Closed("the client is closed"))
        for connection in connections:
            try:
                await within(self._runtime.clock, _CLOSING, connection.closed())
            except TimeoutError:
                continue
