"""Brokers: ``/cluster/register/{broker}`` and ``/cluster/brokers/{broker}/state``.

The first has the broker's addresses, and exists while its lease does. The second is permanent and
tells whether the broker should have topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sulina.errors import Overloaded, Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.path import part
from sulina.metadata.store import Compare, KeyValue, MetadataStore, ModRevisionIs, Put
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
    return REGISTER + part(broker)


def state_key(broker: str) -> str:
    return f"{BROKERS}{part(broker)}/state"


def decode(item: KeyValue) -> BrokerRecord:
    return record.decode(BrokerRecord, item)


async def list_all(store: MetadataStore) -> dict[str, BrokerRecord]:
    """All registered brokers."""
    return record.by_name(BrokerRecord, REGISTER, (await store.range(REGISTER)).items)


async def set_state(
    store: MetadataStore, broker: str, state: BrokerState, others: Sequence[str] = ()
) -> int:
    """Set the desired state of a broker, running or not; returns the revision.

    A broker is drained only while one of ``others`` is active, also if they are drained at the same
    time. Raises ``Refused`` if none is, and ``Overloaded`` if states keep changing concurrently.
    """
    key = state_key(broker)
    for _ in range(cas.DEFAULT_TRIES):
        guards = [_unchanged(key, await store.get(key))]
        if state.mode is BrokerMode.DRAINING:
            guards.append(await _active(store, others, broker))
        result = await store.txn(guards, [Put(key, record.encode(state))])
        if result.succeeded:
            return result.revision
    raise Overloaded("the states of brokers keep changing concurrently: try again later")


async def _active(store: MetadataStore, others: Sequence[str], broker: str) -> Compare:
    """The condition that an active broker of ``others`` stays active."""
    for one in others:
        item = await store.get(state_key(one))
        if item is None or record.decode(BrokerState, item).mode is BrokerMode.ACTIVE:
            return _unchanged(state_key(one), item)
    raise Refused(f"{broker} is the only active broker: none could take its topics")


def _unchanged(key: str, item: KeyValue | None) -> Compare:
    return ModRevisionIs(key, 0 if item is None else item.mod_revision)
