"""A broker that is alone answers about its cluster of one, so that the same commands work on it."""

from __future__ import annotations

from typing import Any

from broker_containers.arguments import Arguments, Method, text
from broker_containers.broker.broker import Broker
from broker_containers.doors.listen import Addresses
from sulina.errors import NotFound
from sulina.names import TopicName
from sulina.version import __version__


class Alone:
    """The methods, for ``Admin`` to offer."""

    def __init__(self, broker: Broker, addresses: Addresses) -> None:
        self._broker = broker
        self._addresses = addresses
        self._started = broker.clock.wall_us()

    def methods(self) -> dict[str, Method]:
        """All of them, by name."""
        return {
            "cluster.describe": self._cluster_describe,
            "broker.list": self._broker_list,
            "broker.describe": self._broker_describe,
            "topic.lookup": self._topic_lookup,
        }

    def _row(self) -> dict[str, Any]:
        return {
            "broker": self._broker.settings.broker_id,
            "url": self._addresses.url,
            "http": self._addresses.http_url,
            "admin": self._addresses.danube_admin_url,
            "version": __version__,
            "started_us": self._started,
            "labels": [],
            "mode": "active",
            "leader": True,
            "topics": sum(1 for _ in self._broker.loaded()),
        }

    async def _cluster_describe(self, _: Arguments) -> Any:
        row = self._row()
        return {
            "leader": row["broker"],
            "term": 0,
            "answered_by": row["broker"],
            "revision": 0,
            "topics": row["topics"],
            "unassigned": 0,
            "moving": 0,
            "brokers": [row],
        }

    async def _broker_list(self, _: Arguments) -> Any:
        return [self._row()]

    async def _broker_describe(self, arguments: Arguments) -> Any:
        row = self._row()
        if text(arguments, "broker") != row["broker"]:
            raise NotFound(f"there is only one broker here: {row['broker']}")
        owns = sorted(str(topic.name) for topic in self._broker.loaded())
        return {**row, "load": None, "owns": owns[:1000]}

    async def _topic_lookup(self, arguments: Arguments) -> Any:
        topic = TopicName.parse(text(arguments, "topic"))
        await self._broker.describe(topic, create=False, delivery=None)
        row = self._row()
        return {
            "topic": str(topic),
            "broker": row["broker"],
            "epoch": 0,
            "moving_to": None,
            "url": row["url"],
            "http": row["http"],
        }
