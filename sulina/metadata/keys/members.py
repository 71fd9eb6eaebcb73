"""Brokers: ``/cluster/register/{broker}`` and ``/cluster/brokers/{broker}/state``.

The first has the broker's addresses, and exists while its lease does. The second is permanent and
tells whether the broker should have topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sulina.errors import Refused
from sulina.metadata.keys import record
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import check_label

REGISTER = "/cluster/register/"
BROKERS = "/cluster/brokers/"


class BrokerMode(StrEnum):
    """Whether a broker should have topics."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It gets no new topics, and its topics are moved away."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A running broker, with the addresses for clients and other brokers."""

    url: str
    http: str = ""
    admin: str = ""
    """The URL of Danube's admin services."""
    grpc: str = ""
    """The URL for Danube's clients."""
    version: str = ""
    started_us: int = 0
    leaving: bool = False
    """It is about to stop, and other brokers should take its topics."""
    labels: tuple[str, ...] = ()
    """Labels for affinity rules, for example ``zone=a``."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The desired state of a broker, set by an operator."""

    mode: BrokerMode = BrokerMode.ACTIVE
    reason: str = ""
    since_us: int = 0


def check_broker_id(name: str) -> str:
    """Return ``name`` if it is a valid broker id; otherwise raise ``Refused``."""
    if name == "load":  # /cluster/brokers/load/... is for load reports
        raise Refused("'load' is reserved and cannot be a broker id: choose another")
    return check_label("broker id", name)


def register_key(broker: str) -> str:
    """The key of a broker's registration."""
    return REGISTER + part(broker)


def state_key(broker: str) -> str:
    """The key of a broker's desired state."""
    return f"{BROKERS}{part(broker)}/state"


def decode(item: KeyValue) -> BrokerRecord:
    """Decode a registration."""
    return record.decode(BrokerRecord, item)


def broker_of(rest: str) -> str:
    """The broker whose registration is ``REGISTER`` + ``rest``."""
    return name_of(rest)


async def list_all(store: MetadataStore) -> dict[str, BrokerRecord]:
    """All registered brokers."""
    items = (await store.range(REGISTER)).items
    return {name_of(item.key.removeprefix(REGISTER)): decode(item) for item in items}


async def set_state(store: MetadataStore, broker: str, state: BrokerState) -> int:
    """Set the desired state of a broker, running or not; returns the revision."""
    return await store.put(state_key(broker), record.encode(state))
