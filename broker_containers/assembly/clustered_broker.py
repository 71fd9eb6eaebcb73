"""One broker of a cluster: the broker itself and everything that makes it take part."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_containers.assembly.running import DoorSettings, LedgerStorage
from broker_containers.assembly.services import build_services
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.election import Election
from broker_containers.cluster.failure_detector import FailureDetector
from broker_containers.cluster.isolation import IsolationMonitor
from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.load_reports import LoadReporter
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.metadata_cache import MetadataCache, follow_policies
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.peers import (
    BinaryLivenessConnector,
    Connect,
    LivenessConnector,
    Peers,
)
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.cluster.synchronizer import Synchronizer
from broker_containers.cluster.tables import ClusterTables
from broker_containers.doors.binary.server import BinaryServer
from broker_containers.doors.listen import Addresses
from broker_containers.metrics.collectors.cluster import of_cluster
from broker_containers.operations.cluster import ClusterHandlers
from broker_containers.operations.router import ClusterRouter
from broker_containers.operations.settings import SettingHandlers
from broker_containers.security.settings import AuthSettings
from broker_containers.settings.apply import apply_to_broker
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from sulina.client.address import parse_addresses
from sulina.errors import SulinaError, Unavailable
from sulina.metadata.keys.members import BrokerMode, BrokerRecord
from sulina.metadata.store import MetadataStore
from sulina.metrics.exposition import Write
from sulina.runtime.deadline import within
from sulina.runtime.logs import apply_log_level, log_level_now
from sulina.runtime.resources import ResourceMonitor
from sulina.runtime.seam import Clock, Network
from sulina.runtime.tasks import keep_running, stop_tasks
from sulina.version import __version__
from sulina.wire.stream import CommandStream

if TYPE_CHECKING:
    from broker_containers.doors.danube.server import DanubeServer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusteredBrokerSettings:
    """How to start one broker of a cluster."""

    broker: BrokerSettings
    doors: DoorSettings
    advertise: str = ""
    """Its URL for clients and other brokers; empty for the address of its binary door."""
    labels: tuple[str, ...] = ()
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    auth: AuthSettings | None = None
    """If set, clients need tokens."""
    audit: AuditSettings | None = None
    """If set, an audit trail is written."""


class ClusteredBroker:
    """The parts of one broker of a cluster, not started yet. ``cluster_broker`` runs it."""

    def __init__(
        self,
        settings: ClusteredBrokerSettings,
        store: MetadataStore,
        storage: LedgerStorage,
        clock: Clock,
        connect: Connect,
        network: Network,
    ) -> None:
        me = settings.broker.broker_id
        cluster = settings.cluster
        self.settings = settings
        self.storage = storage
        self._store = store
        self._clock = clock
        self.tables = ClusterTables(store, clock)
        self.peers = Peers(self.tables.broker, connect)
        self.ownership = Ownership(store, clock, self.tables, me, cluster, self.peers)
        self.cache = MetadataCache(store, clock)
        self.broker = Broker(
            storage.ledgers,
            store,
            clock,
            settings.broker,
            self.ownership,
            self.cache,
            storage.tier,
        )
        self.cache.count_into(self.broker.quotas.stored)
        self.membership = Membership(store, clock, me, BrokerRecord(""), cluster.lease_seconds)
        self.tables.brokers.on_change(self.membership.changed)
        self.election = Election(store, clock, self.tables, self.membership, cluster)
        self.leader_tasks = LeaderTasks(
            store, clock, self.tables, self.election, cluster, self.cache.known
        )
        handlers = ClusterHandlers(
            store, clock, self.tables, self.ownership, self.leader_tasks, self.membership
        )
        router = ClusterRouter(self.tables, self.ownership, self.peers, me)
        self.config = RuntimeConfig(
            store, clock, LiveSettings(settings.broker, cluster, log_level_now())
        )
        self.synchronizer = Synchronizer(
            me,
            (*self.cache.prefix_caches, self.config.prefix_cache),
            clock,
            lambda: connect(self.membership.me.url),
            self.tables.living,
        )
        listen = settings.doors.binary
        self.services = build_services(
            self.broker,
            Addresses(listen.host, listen.tls is not None),
            [handlers, SettingHandlers(self.config)],
            settings.auth,
            router,
            self,
            settings.audit,
        )
        self._network = network
        token = self.services.authority.own_token
        self.liveness: LivenessConnector = BinaryLivenessConnector(me, clock, network, token)

    async def dial(self, broker: str, stream: CommandStream) -> None:
        """Connect to another broker, for a client that can't. Raises ``Unavailable``."""
        found = self.tables.broker(broker)
        if found is None:
            raise Unavailable(f"{broker} is no longer a member of the cluster")
        address = parse_addresses(found.url)[0]
        await self._network.dial(
            stream, address.host, address.port, secure=address.secure, name=address.name
        )

    def is_direct(self, host: str) -> bool:
        """Whether a client that connected to ``host`` can reach each broker by its own address."""
        return bool(host) and host == self.settings.cluster.shared_name

    def urls(self, *, direct: bool = False) -> list[str]:
        """The URLs of the other brokers; empty if all share one address."""
        if self.settings.cluster.proxy_url and not direct:
            return []
        living = self.tables.living().items()
        return [found.url for one, found in living if one != self.membership.broker]

    def danube_urls(self) -> list[str]:
        """The URLs of the other brokers for Danube's clients."""
        living = self.tables.living().items()
        return [found.grpc for one, found in living if one != self.membership.broker and found.grpc]

    def metrics(self) -> Write:
        """The metrics about the cluster."""
        return of_cluster(
            self.tables, self.election, self.ownership, self.leader_tasks, self.membership.broker
        )

    def register_as(self, addresses: Addresses) -> None:
        """Set where other brokers and clients reach this one. Call it once the ports are open."""
        settings = self.settings
        scheme, _, place = addresses.url.partition("://")
        if settings.cluster.shared_name:
            place = f"{settings.cluster.shared_name}@{place}"
        self.membership.me = BrokerRecord(
            settings.advertise or f"{scheme}://{place}",
            http=addresses.http_url,
            admin=addresses.danube_admin_url,
            grpc=addresses.grpc_url,
            version=__version__,
            started_us=self._clock.wall_us(),
            labels=settings.labels,
        )

    def apply(self, live: LiveSettings) -> None:
        """Apply changed settings."""
        apply_to_broker(self.broker, live)
        apply_log_level(live.log_level, self.config.base.log_level)
        self.election.settings = self.leader_tasks.settings = self.ownership.settings = live.cluster
        self.leader_tasks.manager.change(live.cluster.balance)

    async def hand_over(self) -> bool:
        """Wait until other brokers have taken over the topics, or the configured time is over.

        Returns whether they have.
        """
        try:
            await self.membership.leave()
            await within(self._clock, self.config.current.cluster.leave_seconds, self._emptied())
            return True
        except (SulinaError, TimeoutError) as error:
            _log.warning(
                "not all topics were handed over; other brokers take them now (%s)",
                error,
            )
            return False

    async def _emptied(self) -> None:
        # Without another broker, the next one to start takes the topics.
        while any(True for _ in self.tables.topics_of(self.membership.broker)) and self.others():
            await self.tables.prefix_cache.change()

    def others(self) -> bool:
        """Whether there is another broker that takes topics."""
        return any(
            one != self.membership.broker and self.tables.mode(one) is BrokerMode.ACTIVE
            for one in self.tables.living()
        )


@asynccontextmanager
async def following_metadata(node: ClusteredBroker) -> AsyncIterator[None]:
    """Follow the cluster's metadata and settings until left. Enter it before the ports open."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(node.tables)
        await stack.enter_async_context(node.config)
        await stack.enter_async_context(node.cache)
        node.config.on_change(node.apply)
        follow_policies(node.broker, node.cache)
        stack.push_async_callback(node.peers.close)
        yield


@asynccontextmanager
async def joined_cluster(
    node: ClusteredBroker, binary: BinaryServer, danube: DanubeServer | None = None
) -> AsyncIterator[None]:
    """Join the cluster once all ports are open; leaving moves the topics to other brokers, and
    waits until Danube's clients know it.

    Raises ``Refused`` if another broker has this one's name.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(node.membership)
        stack.push_async_callback(node.ownership.stop)
        await node.ownership.start(node.broker)
        await stack.enter_async_context(node.election)
        reporter = LoadReporter(
            node.broker.store,
            node.broker.clock,
            node.membership,
            node.broker,
            ResourceMonitor(),
            lambda: node.config.current.cluster.report_seconds,
            lambda: binary.connections,
        )
        isolation = IsolationMonitor(
            node.broker.clock,
            node.tables,
            node.membership,
            node.peers,
            node.ownership,
            binary,
        )
        detector = FailureDetector(
            node.broker.store,
            node.broker.clock,
            node.tables,
            node.membership,
            node.election,
            node.liveness,
        )
        work = {
            "failure detector": detector.run,
            "leader tasks": node.leader_tasks.run,
            "load reports": reporter.run,
            "isolation monitor": isolation.run,
        }
        tasks = [
            asyncio.create_task(keep_running(name, run, node.broker.clock), name=name)
            for name, run in work.items()
        ]
        try:
            async with node.synchronizer:
                yield
            if await node.hand_over() and danube is not None:
                seconds = node.config.current.cluster.redirect_seconds
                await danube.clients_moved(seconds, node.others)
            binary.stop_listening()
        finally:
            await stop_tasks(*tasks)
