"""Several brokers of one cluster in this process: real doors, one metadata store, three nodes."""

from __future__ import annotations

import ssl
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Self

import sulina
from broker_containers.assembly.cluster import cluster_broker
from broker_containers.assembly.clustered_broker import ClusteredBroker, ClusteredBrokerSettings
from broker_containers.assembly.running import DoorSettings, LedgerStorage, RunningBroker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.doors.http.health import storage_nodes_check
from broker_containers.doors.listen import Listen
from broker_containers.metrics.collectors.storage import of_nodes
from broker_containers.security.settings import AuthSettings
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import LocalNode, Node
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from sulina import Client
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_network import RealNetwork
from tests.owners.cuttable import CuttableStore

QUICK = ClusterSettings(
    lease_seconds=3, check_seconds=0.2, evaluate_seconds=0.2, report_seconds=0.3, leave_seconds=10
)


class ThreeNodes:
    """``Nodes`` in this process, always available."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {
            name: LocalNode(name, MemoryEntryStore(), LossRecord(may_have_lost=False))
            for name in ("a", "b", "c")
        }

    def get(self, member: str) -> Node | None:
        return self._nodes.get(member)

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        return [node for name, node in self._nodes.items() if name not in exclude][:count]

    def failed(self, member: str) -> None: ...


class Brokers:
    """Use as ``async with``; start brokers with ``start``."""

    def __init__(
        self,
        settings: ClusterSettings = QUICK,
        *,
        auth: AuthSettings | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """``trusted`` is for brokers as clients of each other, if their doors use TLS."""
        self._settings = settings
        self._auth = auth
        self._connect = partial(sulina.connect, token=auth.root if auth else "", tls=trusted)
        self._network = RealNetwork(trusted)
        self._nodes = ThreeNodes()
        self._stacks: dict[str, AsyncExitStack] = {}
        self._clock = RealClock()
        self.store: EmbeddedStore
        self.running: dict[str, ClusteredBroker] = {}
        self.doors: dict[str, RunningBroker] = {}
        """The doors of each broker; closed if it is not in ``running``."""
        self.ways: dict[str, CuttableStore] = {}
        """The connection of each broker to the metadata store."""

    async def __aenter__(self) -> Self:
        self.store = await EmbeddedStore.open(self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for name in list(self.running):
            await self.stop(name)
        await self.store.close()

    async def start(self, *names: str, proxy_url: str = "") -> None:
        """Start brokers with these names, and wait for a leader."""
        for name in names:
            stack = AsyncExitStack()
            settings = ClusteredBrokerSettings(
                BrokerSettings(broker_id=name),
                self.door_settings(name),
                cluster=replace(self._settings, proxy_url=proxy_url),
                auth=self._auth,
            )
            way = self.ways[name] = CuttableStore(self.store, self._clock)
            copies = QuorumSettings()
            storage = LedgerStorage(
                QuorumLedgers(self._nodes, way, self._clock, copies),
                storage_nodes_check(self._nodes, copies),
                of_nodes(self._nodes, copies),
            )
            node = ClusteredBroker(
                settings, way, storage, self._clock, self._connect, self._network
            )
            self.doors[name] = await stack.enter_async_context(cluster_broker(node))
            self._stacks[name] = stack
            self.running[name] = node
        some = next(iter(self.running.values()))
        while some.tables.leader()[0] is None:
            await some.tables.prefix_cache.change()

    def door_settings(self, name: str) -> DoorSettings:
        """Where the doors of a broker listen."""
        return DoorSettings(Listen(port=0))

    async def stop(self, name: str) -> None:
        """Stop a broker cleanly."""
        del self.running[name]
        await self._stacks.pop(name).aclose()

    def url(self, name: str) -> str:
        return f"sulina://127.0.0.1:{self.doors[name].addresses.port}"

    def client(self, name: str | None = None) -> Client:
        """A client with the address of one broker, or of all."""
        if name is not None:
            return sulina.connect(self.url(name))
        places = ",".join(f"127.0.0.1:{self.doors[name].addresses.port}" for name in self.running)
        return sulina.connect(f"sulina://{places}")

    def leader(self) -> str:
        who, _ = next(iter(self.running.values())).tables.leader()
        assert who is not None
        return who
