"""UnloadBroker: moves all topics of a broker, or those of chosen namespaces, to other brokers.

Without namespaces the broker is drained: it gets no new topics until it is activated. With
namespaces each of their topics is moved, and the broker stays active. Either way the call waits, up
to the request's timeout, until the topics have moved; those that have not are reported as pending
and keep moving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.cluster_map import ClusterMap
from broker_containers.doors.danube_admin.settings import AdminSettings
from broker_containers.doors.grpc_shared.names import namespace_name
from sulina.errors import Refused, SulinaError
from sulina.metadata.keys.members import BrokerMode
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.cluster import BrokerRow
from sulina.runtime.seam import Clock

_POLL_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 60.0
"""How long to wait for topics to move, unless the call says."""
_MAX_WAIT_SECONDS: Final = 600.0
_PARALLEL: Final = 8
"""Concurrent moves of chosen namespaces, unless the call says."""
_MAX_PARALLEL: Final = 32
_MAX_NAMED: Final = 100
"""Failed topics that an answer names."""


class Unloading:
    """The call."""

    def __init__(
        self, admin: AdminClient, places: ClusterMap, clock: Clock, settings: AdminSettings
    ) -> None:
        self._admin = admin
        self._places = places
        self._clock = clock
        self._settings = settings

    def longest(self, request: pb.UnloadBrokerRequest) -> float:
        """How long the whole call may take."""
        return self._wait_seconds(request) + self._settings.call_seconds

    async def run(self, request: pb.UnloadBrokerRequest) -> Message:
        """Start the moves, and wait for them."""
        place = await self._places.broker(request.broker_id)
        await self._check_targets(place)
        include = {namespace_name(one) for one in request.namespaces_include}
        exclude = {namespace_name(one) for one in request.namespaces_exclude}
        owned = await self._places.owners(broker=place.broker)
        topics = [one for one in sorted(owned) if _wanted(one, include, exclude)]
        if request.dry_run:
            return pb.UnloadBrokerResponse(total=len(topics), pending=len(topics))
        end = self._clock.now() + self._wait_seconds(request)
        failed: dict[str, str] = {}
        if include or exclude:
            at_once = min(request.max_parallel or _PARALLEL, _MAX_PARALLEL)
            failed = await self._move(topics, at_once, end)
        else:
            await self._admin.brokers.drain(place.broker, reason="UnloadBroker")
        left = await self._wait(place.broker, set(topics) - failed.keys(), end)
        return pb.UnloadBrokerResponse(
            started=True,
            total=len(topics),
            succeeded=len(topics) - len(failed) - left,
            failed=len(failed),
            pending=left,
            failed_topics=[f"{topic}: {why}" for topic, why in failed.items()][:_MAX_NAMED],
        )

    def _wait_seconds(self, request: pb.UnloadBrokerRequest) -> float:
        return min(request.timeout_seconds or _WAIT_SECONDS, _MAX_WAIT_SECONDS)

    async def _check_targets(self, place: BrokerRow) -> None:
        others = [one for one in await self._places.brokers() if one.broker != place.broker]
        if not any(one.mode is BrokerMode.ACTIVE for one in others):
            raise Refused(f"{place.broker} is the only active broker: none could take its topics")

    async def _move(self, topics: Sequence[str], at_once: int, end: float) -> dict[str, str]:
        """Start the moves, some at once, until the time is over; returns the failures, by topic."""
        failed: dict[str, str] = {}

        async def move(topic: str) -> None:
            try:
                await self._admin.topics.move(topic)
            except SulinaError as error:
                failed[topic] = str(error)

        for first in range(0, len(topics), at_once):
            if self._clock.now() >= end:
                break
            async with asyncio.TaskGroup() as group:
                for topic in topics[first : first + at_once]:
                    group.create_task(move(topic))
        return failed

    async def _wait(self, broker: str, topics: Collection[str], end: float) -> int:
        """Wait until these topics have left the broker or time is over; returns how many remain."""
        while True:
            owned = await self._places.owners(broker=broker)
            left = sum(1 for topic in topics if topic in owned)
            if not left or self._clock.now() >= end:
                return left
            await self._clock.sleep(_POLL_SECONDS)


def _wanted(topic: str, include: Collection[str], exclude: Collection[str]) -> bool:
    namespace = TopicName.parse(topic).namespace
    return (not include or namespace in include) and namespace not in exclude
