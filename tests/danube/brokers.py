"""Brokers in this process, alone or as one cluster, each with a port for stock clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from broker_containers.assembly.clustered_broker import ClusteredBroker
from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.settings import DanubeListen, DanubeSettings
from broker_containers.doors.listen import Listen
from broker_containers.local_cluster.front import DanubeFront
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.owners.brokers import QUICK, Brokers

QUICK_DOOR = DanubeSettings(forward_after_seconds=2.0, quiet_seconds=2.0, goodbye_seconds=0.0)


class DanubeBrokers(Brokers):
    """With ``proxied``, clients reach all brokers through one address only."""

    def __init__(self, *, proxied: bool = False) -> None:
        super().__init__(replace(QUICK, lease_seconds=6))
        self._proxied = proxied
        self.urls: dict[str, str] = {}
        self._lost: dict[str, ClusteredBroker] = {}
        self._front = DanubeFront(
            "127.0.0.1", 0, lambda: [_port(self.urls[name]) for name in self.running], RealClock()
        )

    @property
    def shared_url(self) -> str:
        """The one address of all brokers."""
        return f"http://127.0.0.1:{self._front.port}"

    async def __aenter__(self) -> Self:
        await self._front.__aenter__()
        await super().__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        await self._front.__aexit__(*exc)

    def door_settings(self, name: str) -> DoorSettings:
        danube = DanubeListen(
            port=_port(self.urls.get(name, ":0")),  # at the same place again after a restart
            proxy_url=self.shared_url if self._proxied else "",
            settings=QUICK_DOOR,
        )
        return replace(super().door_settings(name), danube=danube)

    async def start(self, *names: str, proxy_url: str = "") -> None:
        await super().start(*names, proxy_url=proxy_url)
        for name in names:
            self.urls[name] = self.doors[name].addresses.grpc_url

    async def lose(self, name: str) -> None:
        """Cut a broker off: the others miss it, and it does not notice."""
        self.ways[name].cut()
        door = self.doors[name].danube
        assert door is not None
        await door.close()
        self._lost[name] = self.running.pop(name)

    async def find(self, name: str) -> None:
        """Reconnect a broker that was cut off, and restart it."""
        self.ways[name].mend()
        self.running[name] = self._lost.pop(name)
        await self.stop(name)
        await self.start(name)

    async def owner(self, topic: str) -> str:
        """The broker that serves a topic."""
        name = TopicName.parse(topic)
        some = next(iter(self.running.values()))
        while (
            (owner := some.tables.owner(name)) is None
            or owner.to
            or owner.broker not in self.running
        ):
            await some.tables.prefix_cache.change()
        return owner.broker

    async def other(self, topic: str) -> str:
        """A broker that does not serve it."""
        owner = await self.owner(topic)
        return next(name for name in self.running if name != owner)

    async def move(self, topic: str, to: str) -> None:
        """Move a topic, and wait until it has moved."""
        async with self.client() as client:
            await client.admin("topic.move", {"topic": topic, "broker": to})
        while await self.owner(topic) != to:
            await self.running[to].tables.prefix_cache.change()


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


@dataclass(frozen=True)
class OneBroker:
    """Its URLs."""

    url: str
    """For stock clients."""
    native_url: str
    """For ``sulina.connect``."""
    server: RunningBroker


@asynccontextmanager
async def one_broker(
    folder: Path, settings: BrokerSettings | None = None, danube: DanubeListen | None = None
) -> AsyncIterator[OneBroker]:
    """A broker with a journal of its own."""
    door = danube or DanubeListen(port=0)
    async with run_embedded(folder, DoorSettings(Listen(port=0), danube=door), settings) as server:
        yield OneBroker(
            f"{door.scheme}://127.0.0.1:{server.addresses.grpc_port}",
            server.addresses.url,
            server,
        )
