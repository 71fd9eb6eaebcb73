"""Answers a call on this broker, or has the topic's owner answer it.

Clients that can connect to the owner are sent there. For clients behind a shared address the call
is forwarded, and while the owner can't be reached it is held until the topic has a new one: stock
clients give up sooner than a dead broker is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from google.protobuf.message import Message

from broker_containers.doors.danube.forwarding import (
    Forwarder,
    PeerUnavailable,
    wanted_broker,
    was_forwarded,
)
from broker_containers.doors.danube.settings import PEER_SECONDS
from broker_containers.doors.danube.topic_locations import TopicLocations
from broker_containers.doors.grpc_shared.callers import Context
from sulina.errors import Retriable
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_PAUSE: Final = 0.2

_A = TypeVar("_A", bound=Message)


class Routing:
    """Chooses the broker for a call."""

    def __init__(self, locations: TopicLocations, forwarder: Forwarder, clock: Clock) -> None:
        self.locations = locations
        self.forwarder = forwarder
        self._clock = clock

    def forwards(self, context: Context) -> bool:
        """Whether calls of this client are forwarded, as it can't connect to other brokers."""
        if was_forwarded(context):
            return False
        return bool(self.locations.proxy_for(context.head.host) or wanted_broker(context))

    async def answer(
        self,
        topic: TopicName,
        context: Context,
        method: str,
        request: Message,
        kind: type[_A],
        here: Callable[[], Awaitable[_A]],
        *,
        any_client: bool = False,
    ) -> _A:
        """The reply to ``request``; from ``here`` if this broker serves ``topic``.

        With ``any_client`` the call is also forwarded for clients that could connect to the owner
        themselves. Raises ``Retriable`` if the owner can't be reached, or the client has to connect
        to it.
        """
        end = self._clock.now() + PEER_SECONDS
        while True:
            owner = await self.locations.owner(topic)
            if not owner:
                return await here()
            if not self.forwards(context) and (was_forwarded(context) or not any_client):
                raise elsewhere(topic, owner)
            try:
                return await self.forwarder.unary(owner, method, request, kind, context)
            except PeerUnavailable:
                if self._clock.now() + _PAUSE > end:
                    raise
                await self._clock.sleep(_PAUSE)


def elsewhere(topic: TopicName, owner: str) -> Retriable:
    """The error for clients that have to connect to the owner."""
    return Retriable(f"{topic} is served at {owner}: look it up again")
