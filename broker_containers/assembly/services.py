"""Builds what all doors of a broker share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker_containers.audit.trail import AuditSettings, AuditTrail
from broker_containers.broker.broker import Broker
from broker_containers.doors.listen import Addresses
from broker_containers.doors.services import OtherBrokers, Services
from broker_containers.metrics.tables import TableWatch
from broker_containers.metrics.traffic import TrafficSampler
from broker_containers.operations.audit import AuditHandlers
from broker_containers.operations.lake import LakeHandlers
from broker_containers.operations.ledgers import LedgerHandlers
from broker_containers.operations.message_search import MessageSearchHandlers
from broker_containers.operations.messages import MessageHandlers, Publisher
from broker_containers.operations.overview import OverviewHandlers
from broker_containers.operations.quotas import QuotaHandlers
from broker_containers.operations.running import OperationRouter, Operations
from broker_containers.operations.schemas import SchemaHandlers
from broker_containers.operations.security import SecurityHandlers
from broker_containers.operations.subscriptions import SubscriptionHandlers
from broker_containers.operations.tables import TableHandlers
from broker_containers.operations.topic_search import TopicSearchHandlers
from broker_containers.operations.topics import TopicHandlers
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.lake import versions_of
from broker_containers.schemas.registry import open_registry
from broker_containers.security.access import creator
from broker_containers.security.authority import Authority
from broker_containers.security.records import SecurityRecords
from broker_containers.security.settings import AuthSettings
from broker_containers.security.throttle import TokenThrottle
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.runtime.machine import secret_text
from sulina.runtime.threads import ThreadRunner


def build_services(
    broker: Broker,
    addresses: Addresses,
    handlers: Sequence[object],
    auth: AuthSettings | None = None,
    router: OperationRouter | None = None,
    other_brokers: OtherBrokers | None = None,
    audit: AuditSettings | None = None,
) -> Services:
    """Build the services of ``broker``; nothing is started yet.

    ``handlers`` are those of the operations that differ between a single broker and a cluster.
    Without ``auth``, clients need no token and may do everything. In a cluster, ``router`` forwards
    operations and ``other_brokers`` connects clients to their brokers. With ``audit``, an audit
    trail is written.
    """
    store, clock = broker.store, broker.clock
    authority = Authority(store, clock, auth)
    schemas = SchemaChecks(open_registry(store, clock), store, ThreadRunner(2))
    broker.quotas.schemas = lambda: len(schemas.ids.items)
    schemas.ids.on_change(broker.quotas.subject_changed)
    schemas.registry.before_new_subject = lambda: broker.quotas.check_new_subject(creator())
    schemas.registry.json_rules = lambda: broker.settings.json_schema_rules
    broker.tiering.schemas_of = partial(versions_of, schemas.registry)
    publisher = Publisher(broker, schemas)
    operations = Operations(router)
    admin = operations.client
    trail = AuditTrail(broker.settings.broker_id, store, clock, admin, audit)
    operations.record_in(trail)
    broker.creation.around_first_use = trail.first_use
    broker.retention.audit = broker.unused_topics.audit = broker.erasing.audit = trail
    broker.unused_topics.in_use = partial(_in_use, admin)
    trail.kept = lambda: Policy(
        retention_ms=broker.settings.audit_retention_seconds * 1000,
        retention_bytes=broker.settings.audit_retention_bytes,
    )
    sampler, tables = TrafficSampler(broker), TableWatch(broker)
    overview = OverviewHandlers(broker, operations, sampler)
    operations.serve(
        overview,
        TopicSearchHandlers(broker, operations, sampler),
        LakeHandlers(broker, operations),
        TopicHandlers(broker, admin),
        SubscriptionHandlers(broker),
        LedgerHandlers(broker, admin),
        TableHandlers(broker, tables),
        MessageHandlers(broker, publisher, reading := ThreadRunner()),
        MessageSearchHandlers(broker, admin, schemas.registry, reading),
        SchemaHandlers(schemas),
        QuotaHandlers(broker, operations),
        SecurityHandlers(store, SecurityRecords(store, clock, secret_text), authority),
        AuditHandlers(store, admin),
        *handlers,
    )
    return Services(
        broker,
        operations,
        publisher,
        authority,
        TokenThrottle(clock),
        trail,
        schemas,
        addresses,
        sampler,
        tables,
        overview,
        other_brokers,
    )


async def _in_use(admin: AdminClient, topic: TopicName) -> bool:
    """Whether somebody is connected to a topic, wherever it is served."""
    log = await admin.topics.log(str(topic))
    return bool(log.producers) or any(each.consumers for each in log.subscriptions)
