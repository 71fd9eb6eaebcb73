"""Detects that this broker cannot reach the metadata store while other brokers can.

A broker that cannot reach the store keeps serving: messages do not need it. But if only this broker
is cut off, others have taken over its topics, and its clients should be with them. So it asks its
peers; if one of them reaches the store, it disconnects all clients until it does so itself. If none
does, the store is down and all brokers keep serving.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from broker_containers.cluster.membership import Membership
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.peers import Peers
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import SulinaError
from sulina.operations.cluster import ClusterOperations
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PAUSE = 1.0
_ASK_SECONDS = 2.0


class ClientConnections(Protocol):
    """The broker's clients, as the monitor disconnects them."""

    away: str
    """Why clients are sent to other brokers; empty while they are not."""

    def send_away(self, reason: str) -> None: ...


class IsolationMonitor:
    """Run it in a task."""

    def __init__(
        self,
        clock: Clock,
        tables: ClusterTables,
        membership: Membership,
        peers: Peers,
        ownership: Ownership,
        clients: ClientConnections,
    ) -> None:
        self._clock = clock
        self._tables = tables
        self._membership = membership
        self._peers = peers
        self._ownership = ownership
        self._clients = clients

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            await self._clock.sleep(_PAUSE)
            if self._membership.lease is not None:
                if self._clients.away:
                    _log.warning("connected to the metadata store again")
                    self._clients.away = ""
                    self._ownership.resume()
            elif not self._clients.away and await self._is_alone():
                reason = f"{self._membership.broker} cannot reach the metadata store"
                _log.error("%s, but other brokers can: clients are sent to them", reason)
                self._clients.send_away(reason)
                await self._ownership.suspend(reason)

    async def _is_alone(self) -> bool:
        """Whether others reach the store, and this broker still does not after asking them."""
        return await self._others_are_in_touch() and self._membership.lease is None

    async def _others_are_in_touch(self) -> bool:
        others = [one for one in self._tables.living() if one != self._membership.broker]
        answers = await asyncio.gather(*(self._ask(one) for one in others))
        return any(answers)

    async def _ask(self, broker: str) -> bool:
        try:
            answer = await within(
                self._clock,
                _ASK_SECONDS,
                self._peers.admin(broker, ClusterOperations.standing.name, {}),
            )
        except (SulinaError, TimeoutError):
            return False
        return isinstance(answer, dict) and answer.get("in_touch") is True
