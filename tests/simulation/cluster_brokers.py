"""Simulated brokers of a cluster: the real broker with its services, and a door for clients.

They are assembled as in production, but without sockets. A broker serves only topics that were
assigned to it, and clients look up topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn

from broker_containers.assembly.clustered_broker import (
    ClusteredBroker,
    ClusteredBrokerSettings,
    joined_cluster,
)
from broker_containers.assembly.running import DoorSettings, LedgerStorage
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.doors.binary.server import BinaryServer
from broker_containers.doors.listen import Listen
from broker_containers.topics.topic import Topic
from storage_grpc.ledgers import Ledgers
from sulina.errors import NobodyThere, SulinaError, Unavailable
from sulina.metadata.prefix_cache import CachedTable
from sulina.names import TopicName
from sulina.operations.cluster import ClusterOperations
from tests.simulation.brokers import SimBroker, SimDoor
from tests.simulation.cluster_checker import ClusterChecker
from tests.simulation.loop import MachineState, SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork

_LINE_SECONDS = 2.0

LASTING = frozenset(
    {
        "membership",
        "election",
        "prefix_cache /cluster/",
        "leader tasks",
        "load reports",
        "isolation monitor",
        "failure detector",
    }
)
"""Tasks of a broker that must never end."""


class ClusterBroker(SimBroker):
    """One broker of a cluster: a name, and its process while it runs."""

    node: ClusteredBroker | None = None
    cluster: ClusterSettings
    _checker: ClusterChecker
    _stopping: asyncio.Event | None = None
    find: Callable[[str], SimEndpoint]
    """The endpoint of another broker."""

    async def _serve(self, machine: SimMachine) -> None:
        """Serve until ``stop``. A process that can't start is started again."""
        self._stopping = asyncio.Event()
        resume, page = self._chance.random() < 0.5, self._chance.choice((2, 5, 5_000))
        while True:
            try:
                await self._run(machine, resume, page)
                break
            except SulinaError as error:
                self._checker.trace.note(f"{self.process} could not start: {error}")
                self._gone()
                await self.clock.sleep(0.3)
        self._network.machine_died(machine)
        self.machine = None
        machine.kill()

    async def _run(self, machine: SimMachine, resume: bool, page: int) -> None:
        store = self._store(machine, watches_resume=resume)
        doors = DoorSettings(Listen())
        settings = ClusteredBrokerSettings(
            self._settings, doors, advertise=f"sulina://{self.name}", cluster=self.cluster
        )
        node = ClusteredBroker(
            settings,
            store,
            _storage(self._ledgers(machine, store)),
            self.clock,
            _nobody,
            _Nowhere(),
        )
        node.tables.prefix_cache._page = page
        node.peers = SimPeers(self._network, machine, self.find)  # type: ignore[assignment]
        node.liveness = SimLivenessConnector(self._network, machine, self.find)
        self._look_on(node)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(node.tables)
            await stack.enter_async_context(node.broker)
            node.register_as(node.services.addresses)
            async with joined_cluster(node, BinaryServer(node.services, doors.binary)):
                self.node, self.broker = node, node.broker
                self.endpoint.up(machine, ClusterDoor(self.name, node))
                assert self._stopping is not None
                await self._stopping.wait()
            self._gone()

    def _look_on(self, node: ClusteredBroker) -> None:
        tables = node.tables
        for table in (tables.owners, tables.brokers, tables.loads, tables.states, tables.leaders):
            table.on_change(partial(self._cached, self.process, table))

    def _cached(self, process: str, table: CachedTable[Any], rest: str, value: object) -> None:
        if value is not None:
            self._checker.cached(process, table.prefix + rest, table.revisions[rest])

    def _gone(self) -> None:
        self.endpoint.down()
        self.node = self.broker = None

    def stop(self) -> None:
        """Stop cleanly: hand over the topics first."""
        if self._stopping is not None:
            self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping is not None and self._stopping.is_set()

    def kill(self) -> None:
        super().kill()
        self.node = None

    @property
    def running(self) -> bool:
        """Whether it serves and is not paused."""
        return (
            self.node is not None
            and self.machine is not None
            and self.machine.state is MachineState.RUNNING
        )

    @property
    def term(self) -> int:
        """The term in which it considers itself the leader; 0 for none."""
        return self.node.election.term if self.node is not None and self.running else 0

    def look(self, held: dict[int, int]) -> None:
        """Compare its lease with those that the store holds."""
        if self.node is not None and self.running:
            lease = self.node.membership.lease
            self._checker.believed(self.process, None if lease is None else lease.id, held)


class ClusterDoor(SimDoor):
    """The calls of clients to a broker of a cluster, as over the binary door."""

    def __init__(self, name: str, node: ClusteredBroker) -> None:
        super().__init__(node.broker)
        self._name = name
        self._node = node

    async def where(self, topic: TopicName) -> str:
        """The broker that serves a topic, which is created if it does not exist."""
        await self._broker.describe(topic, create=True, delivery=None)
        found = await self._node.ownership.where(topic)
        return self._name if found is None else found[0]

    async def standing(self) -> dict[str, bool]:
        """Whether this broker is connected to the metadata store."""
        return {"in_touch": self._node.membership.lease is not None}

    async def _topic(self, name: TopicName) -> Topic:
        return await self._broker.topic(name)


class SimPeers:
    """Calls to other brokers: whether they are connected to the metadata store."""

    def __init__(
        self, network: SimNetwork, machine: SimMachine, find: Callable[[str], SimEndpoint]
    ) -> None:
        self._network = network
        self._machine = machine
        self._find = find

    async def admin(self, broker: str, method: str, arguments: object) -> dict[str, bool]:
        assert method == ClusterOperations.standing.name
        connection = self._network.connect(self._machine, self._find(broker))
        try:
            answer: dict[str, bool] = await connection.request(lambda door: door.standing())
            return answer
        finally:
            connection.close()


class SimLivenessConnector:
    """Connects to a broker; if its process is down, its machine usually refuses the connection.

    If a link is blocked there is no answer, or, in some runs, a device on the way refuses.
    """

    def __init__(
        self, network: SimNetwork, machine: SimMachine, find: Callable[[str], SimEndpoint]
    ) -> None:
        self._network = network
        self._machine = machine
        self._find = find
        self._rejected = network.chance.random() < 0.3

    async def open(self, broker: str, url: str) -> SimLivenessConnection:
        network, endpoint = self._network, self._find(broker)
        ways = {(self._machine.name, endpoint.name), (endpoint.name, self._machine.name)}
        connection = network.connect(self._machine, endpoint)
        blocked = bool(ways & network.blocked)
        if self._rejected if blocked else endpoint.machine is None:
            connection.close()
            await asyncio.sleep(network.latency * 2)
            if network.chance.random() < 0.8:
                raise NobodyThere(f"{broker} is down")
            raise Unavailable(f"{broker} does not answer")
        lost = asyncio.Event()
        connection.on_client_side_end.append(lost.set)
        try:
            async with asyncio.timeout(_LINE_SECONDS):
                await connection.request(lambda door: door.standing())
        except TimeoutError:
            connection.close()
            raise Unavailable(f"{broker} does not answer") from None
        return SimLivenessConnection(connection, lost)


class SimLivenessConnection:
    def __init__(self, connection: SimConnection, lost: asyncio.Event) -> None:
        self._connection = connection
        self._lost = lost

    async def ended(self) -> None:
        try:
            await self._lost.wait()
        finally:
            self._connection.close()


def _storage(ledgers: Ledgers) -> LedgerStorage:
    async def ready() -> str:
        return "there is no HTTP door here"

    return LedgerStorage(ledgers, ready, lambda _: None)


def _nobody(url: str) -> NoReturn:
    raise Unavailable("brokers do not call each other here")


class _Nowhere:
    """The network of the doors, which are not simulated."""

    async def dial(self, protocol: object, host: str, port: int, **more: object) -> NoReturn:
        raise Unavailable("there is nobody to call")
