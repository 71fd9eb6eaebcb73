"""Connections to other brokers that exist only to notice when they are lost."""

from __future__ import annotations

import asyncio
from typing import Protocol

from sulina.client.address import parse_addresses
from sulina.client.connection import Connection
from sulina.client.options import ClientOptions
from sulina.errors import Closed
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Clock, Network, Runtime

_CONNECT_SECONDS = 2.0


class LivenessConnection(Protocol):
    """A connection to a broker that has answered."""

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

    def __init__(self, me: str, clock: Clock, network: Network, token: str = "") -> None:
        """``token`` authenticates brokers to each other."""
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
