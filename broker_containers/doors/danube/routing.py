"""Answers a call here, or lets the broker answer it that serves the topic.

Clients that can go to the owner are told to look it up. For those behind one address the call is
passed on, and while the owner can't be reached it waits for the next one: no stock client tries
for as long as a broker that died is missed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from google.protobuf.message import Message

from broker_containers.doors.danube.error_statuses import Context
from broker_containers.doors.danube.forwarding import (
    Forwarder,
    PeerUnavailable,
    wanted_broker,
    was_passed_on,
)
from broker_containers.doors.danube.topic_locations import TopicLocations
from sulina.errors import Retriable
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_PAUSE: Final = 0.2

_A = TypeVar("_A", bound=Message)


class Routing:
    """Who answers what. ``seconds`` is how long a call is held for its topic's next owner."""

    def __init__(
        self, locations: TopicLocations, forwarder: Forwarder, clock: Clock, seconds: float
    ) -> None:
        self.locations = locations
        self.forwarder = forwarder
        self._clock = clock
        self._seconds = seconds

    def passes_on(self, context: Context) -> bool:
        """Whether this client can't go to another broker itself."""
        if was_passed_on(context):
            return False
        return bool(self.locations.proxy_url or wanted_broker(context))

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
        """The answer to ``request``; ``here`` gives it if this broker serves ``topic``.

        With ``any_client`` the call is passed on also for clients that could go there. Raises
        ``Retriable`` if the owner can't be reached, or is another one and the client shall go.
        """
        end = self._clock.now() + self._seconds
        while True:
            owner = await self.locations.owner(topic)
            if not owner:
                return await here()
            if not self.passes_on(context) and (was_passed_on(context) or not any_client):
                raise elsewhere(topic, owner)
            try:
                return await self.forwarder.unary(owner, method, request, kind, context)
            except PeerUnavailable:
                if self._clock.now() + _PAUSE > end:
                    raise
                await self._clock.sleep(_PAUSE)


def elsewhere(topic: TopicName, owner: str) -> Retriable:
    """What clients are told who shall go to the owner."""
    return Retriable(f"{topic} is served at {owner}: look it up again")
