"""Brokers: ``/cluster/register/{broker}`` while it lives, ``/cluster/brokers/{broker}/state``.

The first is bound to the broker's lease and says where it is. The second stays: it says whether the
broker shall have topics.
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
    """Whether a broker gets topics."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It gets none, and those it has are moved away."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker that lives. Addresses are those that clients and other brokers reach it by."""

    url: str
    http: str = ""
    admin: str = ""
    """Where Danube's admin services are."""
    grpc: str = ""
    """Where Danube's clients are served."""
    version: str = ""
    started_us: int = 0
    leaving: bool = False
    """It is about to stop, and wants others to take its topics."""
    labels: tuple[str, ...] = ()
    """What affinity rules can name, ``zone=a`` for example."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What an operator wants of a broker."""

    mode: BrokerMode = BrokerMode.ACTIVE
    reason: str = ""
    since_us: int = 0


def check_broker_id(name: str) -> str:
    """``name`` if a broker may be called so; raises ``Refused``."""
    if name == "load":  # /cluster/brokers/load/... is for load reports
        raise Refused("a broker can't be called 'load': choose another id")
    return check_label("broker id", name)


def register_key(broker: str) -> str:
    """Where a broker says that it lives."""
    return REGISTER + part(broker)


def state_key(broker: str) -> str:
    """Where it is noted what is wanted of a broker."""
    return f"{BROKERS}{part(broker)}/state"


def decode(item: KeyValue) -> BrokerRecord:
    """A registration."""
    return record.decode(BrokerRecord, item)


def broker_of(rest: str) -> str:
    """The broker whose registration is ``REGISTER`` + ``rest``."""
    return name_of(rest)


async def list_all(store: MetadataStore) -> dict[str, BrokerRecord]:
    """The brokers that live."""
    items = (await store.range(REGISTER)).items
    return {name_of(item.key.removeprefix(REGISTER)): decode(item) for item in items}


async def set_state(store: MetadataStore, broker: str, state: BrokerState) -> int:
    """Say what is wanted of a broker, alive or not; returns the revision."""
    return await store.put(state_key(broker), record.encode(state))
