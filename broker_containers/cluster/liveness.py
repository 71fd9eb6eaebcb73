"""LivenessConnector to other brokers, kept for the sake of noticing that they end."""

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
    """A connection to a broker that answered."""

    async def ended(self) -> None:
        """Wait until it is lost. Cancelling gives it up."""
        ...


class LivenessConnector(Protocol):
    """Makes liveness."""

    async def open(self, broker: str, url: str) -> LivenessConnection:
        """A connection to the broker at ``url``, with a deadline of its own.

        Raises ``NobodyThere`` if its machine says that no process listens there, and other errors
        when it is not known what became of it.
        """
        ...


class BinaryLivenessConnector:
    """LivenessConnector through the door that clients use."""

    def __init__(self, me: str, clock: Clock, network: Network, token: str = "") -> None:
        """``token`` is what brokers show to each other."""
        self._runtime = Runtime(clock, network, real_random())
        self._options = ClientOptions(f"{me} looks on", token, connect_timeout=_CONNECT_SECONDS)

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
            self._connection.end(Closed("nobody looks on any more"))
