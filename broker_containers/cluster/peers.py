"""Calls other brokers through their binary door, with the same client that users have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sulina.client.client import Client
from sulina.errors import Unavailable
from sulina.metadata.keys.members import BrokerRecord
from sulina.operations.declaration import FORWARDED

Connect = Callable[[str], Client]


class Peers:
    """One client per broker, created when first needed. ``find`` returns a broker's record."""

    def __init__(self, find: Callable[[str], BrokerRecord | None], connect: Connect) -> None:
        self._find = find
        self._connect = connect
        self._clients: dict[str, Client] = {}

    async def admin(self, broker: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """Run an administrative method on another broker; raises the errors it reports.

        Raises ``Unavailable`` if the broker is not registered.
        """
        client = await self.client(broker)
        return await client.admin(method, {**arguments, FORWARDED: True})

    async def client(self, broker: str) -> Client:
        """A connected client of that broker. Do not close it."""
        found = self._find(broker)
        if found is None:
            raise Unavailable(f"{broker} is no longer a member of the cluster: try again")
        client = self._clients.get(found.url)
        if client is None:
            client = self._connect(found.url)
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
