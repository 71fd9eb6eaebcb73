"""The cluster as the services see it: brokers, and which topic is where.

A broker that is alone is a cluster of one: it leads, and serves every topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker_containers.admin import Admin
from broker_containers.doors.danube_admin.numbers import number_of
from broker_containers.doors.grpc_shared.names import BadRequest
from sulina.errors import NotFound
from sulina.metadata.keys.members import BrokerMode
from sulina.names import TopicName


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, and the URLs of its doors; those it does not have are empty."""

    broker: str
    url: str
    http: str
    admin: str
    mode: BrokerMode
    leads: bool
    topics: int

    @property
    def status(self) -> str:
        """In Danube's words: one that is emptied is draining, then drained."""
        if self.mode is BrokerMode.DRAINING and not self.topics:
            return "drained"
        return self.mode.value


@dataclass(frozen=True, slots=True)
class Found:
    """A topic that holds messages itself: a partition, or one without partitions."""

    topic: str
    delivery: str


class Places:
    """Asks ``Admin``."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def clustered(self) -> bool:
        """Whether this is a broker of a cluster."""
        return "topic.owners" in self._admin.methods

    async def brokers(self) -> list[Place]:
        """Those that live, by id."""
        return [
            Place(
                row["broker"],
                row["url"],
                row["http"],
                row["admin"],
                BrokerMode(row["mode"]),
                row["leader"],
                row["topics"],
            )
            for row in await self._admin.call("broker.list", {})
        ]

    async def broker(self, named: str) -> Place:
        """The broker with this id, or with this number. Raises ``BadRequest``, ``NotFound``."""
        if not named:
            raise BadRequest("broker_id is missing: ListBrokers tells the ids")
        found = await self.brokers()
        for place in found:
            if place.broker == named:
                return place
        for place in found:
            if str(number_of(place.broker)) == named:
                return place
        raise NotFound(f"no broker called {named!r} lives: ListBrokers tells those that do")

    async def owners(self, **wanted: str) -> dict[str, str]:
        """Topic -> broker, of one ``namespace`` or ``broker`` or of all.

        A broker of a cluster knows those that were used; one that is alone serves whatever is
        there.
        """
        if self.clustered:
            rows = await self._admin.call("topic.owners", wanted)
            return {row["topic"]: row["broker"] for row in rows}
        namespace = wanted.get("namespace")
        [me] = await self.brokers()
        spaces = await self._namespaces() if namespace is None else [namespace]
        return {found.topic: me.broker for found in await self.topics(spaces)}

    async def topics(self, namespaces: Iterable[str]) -> list[Found]:
        """The topics of these namespaces, partitions one by one."""
        result = []
        for namespace in namespaces:
            rows = await self._admin.call("topic.list", {"namespace": namespace, "all": True})
            result += [
                Found(row["topic"], row["delivery"]) for row in rows if not row["partitions"]
            ]
        return result

    async def topics_of(self, broker: str) -> list[Found]:
        """The topics that a broker serves."""
        owned = await self.owners(broker=broker)
        spaces = sorted({TopicName.parse(topic).namespace for topic in owned})
        return [found for found in await self.topics(spaces) if found.topic in owned]

    async def _namespaces(self) -> list[str]:
        names: list[str] = await self._admin.call("namespace.list", {})
        return names
