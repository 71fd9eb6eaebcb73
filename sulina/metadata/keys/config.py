"""Settings that change while brokers run, and who changed them.

* ``/cluster/config/cluster/{name}``: a setting of all brokers.
* ``/cluster/config/brokers/{broker}/{name}``: a setting of one broker; it wins over the former.
* ``/cluster/config/changes``: how many changes there have been.
* ``/cluster/config/history/{number}``: the last thousand of them.

A change and its entry in the history are one transaction: there is none without the other. What a
value means is for ``broker_containers.settings.setting`` to say; here it is text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sulina.errors import CorruptEntry, Overloaded
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.members import check_broker_id
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs, Op, Put

CONFIG = "/cluster/config/"
CLUSTER = CONFIG + "cluster/"
BROKERS = CONFIG + "brokers/"
HISTORY = CONFIG + "history/"
CHANGES = CONFIG + "changes"
KEPT = 1_000
"""Changes that the history keeps."""


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A setting's value, as text."""

    value: str


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change of one setting; None is a setting that is not set."""

    name: str
    broker: str = ""
    """Whose setting it is; nothing if it is that of all brokers."""
    old: str | None = None
    new: str | None = None
    by: str = ""
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class _Changes:
    count: int = 0


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """What is set: for all brokers, and for each of them, by name."""

    cluster: dict[str, str]
    brokers: dict[str, dict[str, str]]

    def of(self, broker: str) -> dict[str, str]:
        """What is set for a broker, or with no name for all of them."""
        return self.brokers.get(broker, {}) if broker else self.cluster

    def with_one(self, name: str, broker: str, value: str | None) -> StoredSettings:
        """The same with one setting set, or with None unset."""
        values = {**self.of(broker), name: value}
        mine = {name: text for name, text in values.items() if text is not None}
        if not broker:
            return StoredSettings(mine, self.brokers)
        return StoredSettings(self.cluster, {**self.brokers, broker: mine})


def key(name: str, broker: str = "") -> str:
    """Where a setting is: that of all brokers, or of one."""
    if not broker:
        return CLUSTER + part(name)
    return f"{BROKERS}{part(check_broker_id(broker))}/{part(name)}"


def history_key(number: int) -> str:
    """Where a change is noted; the keys are in the order of the numbers."""
    return f"{HISTORY}{number:020d}"


def decode(item: KeyValue) -> str:
    """A setting's value."""
    return record.decode(ConfigRecord, item).value


def owner_of(rest: str) -> tuple[str, str] | None:
    """The broker and the name of the setting at ``BROKERS`` + ``rest``; None if it is no such."""
    broker, slash, name = rest.partition("/")
    return (name_of(broker), name_of(name)) if slash else None


async def change(
    store: MetadataStore,
    wanted: ChangeRecord,
    check: Callable[[StoredSettings, StoredSettings], None],
) -> tuple[ChangeRecord, int] | None:
    """Set what ``wanted`` names to its ``new``, or unset it; returns what was noted, and where.

    None if that is how it is already. ``check`` sees all that is set, before and with the change,
    and may raise to prevent it; nobody else changes a setting meanwhile. Durable when this
    returns; the number is the revision. Raises ``UnknownOutcome`` as the store does: look before
    it is tried again.
    """
    place = key(wanted.name, wanted.broker)
    for _ in range(cas.DEFAULT_TRIES):
        # In this order: if the number is the same afterwards, nobody changed what was read.
        counted = await store.get(CHANGES)
        before = await list_all(store)
        after = before.with_one(wanted.name, wanted.broker, wanted.new)
        old = before.of(wanted.broker).get(wanted.name)
        if old == wanted.new:
            return None
        check(before, after)
        number = 1 if counted is None else record.decode(_Changes, counted).count + 1
        noted = ChangeRecord(wanted.name, wanted.broker, old, wanted.new, wanted.by, wanted.at_us)
        ops: list[Op] = [
            Delete(place)
            if noted.new is None
            else Put(place, record.encode(ConfigRecord(noted.new))),
            Put(CHANGES, record.encode(_Changes(number))),
            Put(history_key(number), record.encode(noted)),
        ]
        if number > KEPT:
            ops.append(Delete(history_key(number - KEPT)))
        unchanged = ModRevisionIs(CHANGES, 0 if counted is None else counted.mod_revision)
        result = await store.txn([unchanged], ops)
        if result.succeeded:
            return noted, result.revision
    raise Overloaded("others change settings all the time: try again later")


async def list_all(store: MetadataStore) -> StoredSettings:
    """What is set. A value that can't be read is shown as it is."""
    found = StoredSettings({}, {})
    for item in (await store.range(CLUSTER)).items:
        found.cluster[name_of(item.key.removeprefix(CLUSTER))] = _readable(item)
    for item in (await store.range(BROKERS)).items:
        owner = owner_of(item.key.removeprefix(BROKERS))
        if owner is not None:
            found.brokers.setdefault(owner[0], {})[owner[1]] = _readable(item)
    return found


def _readable(item: KeyValue) -> str:
    try:
        return decode(item)
    except CorruptEntry:
        return item.value.decode(errors="replace")


async def history(store: MetadataStore, limit: int) -> list[tuple[int, ChangeRecord]]:
    """The last changes with their numbers, the newest first; at most ``KEPT``."""
    found: list[tuple[int, ChangeRecord]] = []
    for item in reversed((await store.range(HISTORY)).items):
        if len(found) == limit:
            break
        number = item.key.removeprefix(HISTORY)
        found.append((int(number), record.decode(ChangeRecord, item)))
    return found
