"""Connections to other brokers' binary doors: to call them, and only to notice their loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker_containers.security.access import creator
from sulina.client.address import parse_addresses
from sulina.client.client import Client
from sulina.client.connection import Connection
from sulina.client.options import ClientOptions
from sulina.errors import Closed, Unavailable
from sulina.metadata.keys.members import BrokerRecord
from sulina.operations.declaration import FORWARDED
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Clock, Network, Runtime

Connect = Callable[[str], Client]


class Peers:
    """Calls other brokers with the same client that users have: one per broker, created when first
    needed. ``find`` returns a broker's record."""

    def __init__(self, find: Callable[[str], BrokerRecord | None], connect: Connect) -> None:
        self._find = find
        self._connect = connect
        self._clients: dict[str, Client] = {}

    async def admin(self, broker: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """Run an administrative method on another broker; raises the errors it reports.

        What it creates counts for the same principal as here.
        Raises ``Unavailable`` if the broker is not registered.
        """
        client = await self.client(broker)
        return await client.admin(method, {**arguments, FORWARDED: creator() or True})

    async def client(self, broker: str) -> Client:
        """A connected client of that broker. Do not close it."""
        found = self._find(broker)
        if found is None:
            raise Unavailable(f"{broker} is no longer a member of the cluster: try again")
        client = self._clients.get(found.url)
        if client is None:
            client = self._connect(found.url)
            # A call for this broker must not reach another one, or this one itself, instead.
            client.use_only_given_addresses()
            self._clients[found.url] = client
            try:
                await client.open()
            except BaseException:
                self._clients.pop(found.url, None)
                raise
        return client

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()


_CONNECT_SECONDS = 2.0


class LivenessConnection(Protocol):
    """A connection to a broker that has answered; it exists only to notice when it is lost."""

    async def ended(self) -> None:
        """Wait until the connection is lost. Cancelling closes it."""
        ...


class LivenessConnector(Protocol):
    """Opens such connections."""

    async def open(self, broker: str, url: str) -> LivenessConnection:
        """Connect to the broker at ``url``, within a timeout.

        Raises ``NobodyThere`` if its machine refuses the connection because no process listens
        there, and other errors if the state of the broker is unknown.
        """
        ...


class BinaryLivenessConnector:
    """Connects to the binary door, like clients."""

    def __init__(
        self, me: str, clock: Clock, network: Network, token: str | Callable[[], str] = ""
    ) -> None:
        """``token`` authenticates brokers to each other; a function returns the present one."""
        self._runtime = Runtime(clock, network, real_random())
        self._options = ClientOptions(f"{me} liveness", token, connect_timeout=_CONNECT_SECONDS)

    async def open(self, broker: str, url: str) -> _BinaryLivenessConnection:
        lost = asyncio.Event()
        address = parse_addresses(url)[0]
        connection = await Connection.open(
            address, self._runtime, self._options, lambda _: lost.set()
        )
        return _BinaryLivenessConnection(connection, lost)


class _BinaryLivenessConnection:
    def __init__(self, connection: Connection, lost: asyncio.Event) -> None:
        self._connection = connection
        self._lost = lost

    async def ended(self) -> None:
        try:
            await self._lost.wait()
        finally:
            self._connection.end(Closed("the liveness check has ended"))
