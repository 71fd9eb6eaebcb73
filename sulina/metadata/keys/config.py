"""Settings that can change while brokers run, and the history of changes.

* ``/cluster/config/cluster/{name}``: a setting of all brokers.
* ``/cluster/config/brokers/{broker}/{name}``: a setting of one broker, which overrides the former.
* ``/cluster/config/changes``: the number of changes so far.
* ``/cluster/config/history/{number}``: the last thousand changes.

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
"""The number of changes that the history keeps."""


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A setting's value, as text."""

    value: str


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change of one setting; None means not set."""

    name: str
    broker: str = ""
    """The broker; "" for a setting of all brokers."""
    old: str | None = None
    new: str | None = None
    by: str = ""
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class _Changes:
    count: int = 0


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The stored settings: of all brokers, and of each broker, by name."""

    cluster: dict[str, str]
    brokers: dict[str, dict[str, str]]

    def of(self, broker: str) -> dict[str, str]:
        """The settings of one broker, or of all brokers for ""."""
        return self.brokers.get(broker, {}) if broker else self.cluster

    def with_one(self, name: str, broker: str, value: str | None) -> StoredSettings:
        """A copy with one setting changed, or removed with None."""
        values = {**self.of(broker), name: value}
        mine = {name: text for name, text in values.items() if text is not None}
        if not broker:
            return StoredSettings(mine, self.brokers)
        return StoredSettings(self.cluster, {**self.brokers, broker: mine})


def key(name: str, broker: str = "") -> str:
    """The key of a setting of all brokers, or of one."""
    if not broker:
        return CLUSTER + part(name)
    return f"{BROKERS}{part(check_broker_id(broker))}/{part(name)}"


def history_key(number: int) -> str:
    """The key of a change; keys are in the order of the numbers."""
    return f"{HISTORY}{number:020d}"


def decode(item: KeyValue) -> str:
    """A setting's value."""
    return record.decode(ConfigRecord, item).value


def owner_of(rest: str) -> tuple[str, str] | None:
    """The broker and name of the setting at ``BROKERS`` + ``rest``; None for another key."""
    broker, slash, name = rest.partition("/")
    return (name_of(broker), name_of(name)) if slash else None


async def change(
    store: MetadataStore,
    wanted: ChangeRecord,
    check: Callable[[StoredSettings, StoredSettings], None],
) -> tuple[ChangeRecord, int] | None:
    """Set or unset one setting; returns the recorded change and its revision.

    None if it has that value already. ``check`` receives all settings before and after the change
    and may raise to prevent it; no other setting changes meanwhile. Durable when it returns. After
    ``UnknownOutcome``, read back before trying again.
    """
    place = key(wanted.name, wanted.broker)
    for _ in range(cas.DEFAULT_TRIES):
        # In this order: if the count is unchanged afterwards, so is what was read.
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
    raise Overloaded("settings are being changed concurrently: try again later")


async def list_all(store: MetadataStore) -> StoredSettings:
    """All stored settings. Unreadable values are returned as they are."""
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
    """The last changes with their numbers, newest first."""
    found: list[tuple[int, ChangeRecord]] = []
    for item in reversed((await store.range(HISTORY)).items):
        if len(found) == limit:
            break
        number = item.key.removeprefix(HISTORY)
        found.append((int(number), record.decode(ChangeRecord, item)))
    return found
