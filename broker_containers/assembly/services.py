"""Builds what all doors of a broker share."""

from __future__ import annotations

from collections.abc import Mapping

from broker_containers.admin import Admin, AdminRouter
from broker_containers.arguments import Method
from broker_containers.broker.broker import Broker
from broker_containers.doors.listen import Addresses
from broker_containers.doors.services import OtherBrokers, Services
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.methods import schema_methods
from broker_containers.schemas.opening import open_registry
from broker_containers.security.authority import Authority
from broker_containers.security.methods import security_methods
from broker_containers.security.records import SecurityRecords
from broker_containers.security.role_methods import role_methods
from broker_containers.security.settings import AuthSettings
from sulina.runtime.secret_text import secret_text


def build_services(
    broker: Broker,
    addresses: Addresses,
    methods: Mapping[str, Method],
    auth: AuthSettings | None = None,
    router: AdminRouter | None = None,
    other_brokers: OtherBrokers | None = None,
) -> Services:
    """Build the services of ``broker``; nothing is started yet.

    ``methods`` are the administrative methods that differ between a single broker and a cluster.
    Without ``auth``, clients need no token and may do everything. In a cluster, ``router`` forwards
    administrative calls and ``other_brokers`` connects clients to their brokers.
    """
    store, clock = broker.store, broker.clock
    authority = Authority(store, clock, auth)
    registry = open_registry(store, clock)
    offered = {
        **security_methods(SecurityRecords(store, clock, secret_text), authority),
        **role_methods(store, authority),
        **schema_methods(registry),
        **methods,
    }
    admin = Admin(broker, offered, router)
    schemas = SchemaChecks(registry, store)
    return Services(broker, admin, authority, schemas, addresses, other_brokers)
