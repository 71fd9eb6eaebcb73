"""What all doors of one broker share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from broker_containers.audit.trail import AuditTrail
from broker_containers.broker.broker import Broker
from broker_containers.doors.listen import Addresses
from broker_containers.metrics.requests import RequestCounts
from broker_containers.metrics.tables import TableWatch
from broker_containers.metrics.traffic import TrafficSampler
from broker_containers.operations.messages import Publisher
from broker_containers.operations.overview import OverviewHandlers
from broker_containers.operations.running import Operations
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.security.authority import Authority
from broker_containers.security.throttle import TokenThrottle
from sulina.wire.stream import CommandStream


class OtherBrokers(Protocol):
    """The other brokers of the cluster."""

    async def dial(self, broker: str, stream: CommandStream) -> None:
        """Connect ``stream`` to that broker. Raises ``Unavailable`` or ``Refused``."""
        ...

    def is_direct(self, host: str) -> bool:
        """Whether a client that connected to ``host`` can reach each broker by its own address."""
        ...

    def urls(self, *, direct: bool = False) -> list[str]:
        """Where clients reach the other brokers; empty if all share one address."""
        ...

    def danube_urls(self) -> list[str]:
        """Where the other brokers' ports for Danube's clients are."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Complete before the first port opens: no connection ever sees a part of it missing."""

    broker: Broker
    operations: Operations
    """The administrative operations; every door offers the same ones."""
    publisher: Publisher
    """Publishes messages for callers that are not producers."""
    authority: Authority
    """Decides what the holder of a token may do."""
    throttle: TokenThrottle
    """Slows down callers that present invalid tokens."""
    audit: AuditTrail
    """Records administrative changes, sign-ins and refusals."""
    schemas: SchemaChecks
    """Checks messages against the schemas of their topics."""
    addresses: Addresses
    sampler: TrafficSampler
    """Samples traffic for people who look at it."""
    tables: TableWatch
    """The tables of topics, if the broker knows their catalog."""
    overview: OverviewHandlers
    other_brokers: OtherBrokers | None = None
    """None for a single broker."""
    requests: RequestCounts = field(default_factory=RequestCounts)
    """Requests of all doors, counted."""
