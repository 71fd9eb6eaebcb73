"""The cluster's metadata in memory, as every broker keeps it: a prefix_cache of ``/cluster/``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from broker_containers.load.report import LoadReport
from sulina.metadata.keys import assignments, leader, members, record
from sulina.metadata.keys.assignments import Owner, UnassignedTopic
from sulina.metadata.keys.leader import LeaderRecord
from sulina.metadata.keys.members import BrokerMode, BrokerRecord, BrokerState
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock

LOADS = members.BROKERS + "load/"


class ClusterTables:
    """Use as ``async with``; entering waits for the first listing.

    The data may be slightly out of date: writes that depend on it must be guarded.
    """

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self.brokers: CachedTable[BrokerRecord] = CachedTable(members.REGISTER, members.decode)
        self.owners: CachedTable[Owner] = CachedTable(assignments.OWNERS, assignments.decode_owner)
        self.unassigned: CachedTable[UnassignedTopic] = CachedTable(
            assignments.UNASSIGNED, assignments.decode_unassigned
        )
        self.loads: CachedTable[LoadReport] = CachedTable(
            LOADS, lambda item: LoadReport.from_bytes(item.value)
        )
        self.states: CachedTable[BrokerState] = CachedTable(members.BROKERS, _state)
        self.leaders: CachedTable[LeaderRecord] = CachedTable(leader.KEY, _leader)
        tables = [self.brokers, self.owners, self.unassigned, self.loads, self.states, self.leaders]
        self.prefix_cache = PrefixCache(
            store, clock, "/cluster/", cast(list[CachedTable[object]], tables)
        )

    async def __aenter__(self) -> ClusterTables:
        await self.prefix_cache.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.prefix_cache.__aexit__(*exc)

    def owner(self, topic: TopicName) -> Owner | None:
        """The owner of ``topic``, or None."""
        return self.owners.items.get(assignments.path_of(topic))

    def owner_at(self, topic: TopicName) -> tuple[Owner | None, int]:
        """The owner of ``topic`` and the revision of its record, for a swap; 0 if there is none.

        Both belong to the same moment. Read them together, before anything is awaited: swapping an
        old record against a newer revision would undo the changes in between.
        """
        path = assignments.path_of(topic)
        return self.owners.items.get(path), self.owners.revisions.get(path, 0)

    def broker(self, broker: str) -> BrokerRecord | None:
        """A live broker, or None."""
        return self.brokers.items.get(part(broker))

    def living(self) -> dict[str, BrokerRecord]:
        """The live brokers, by id."""
        return {name_of(rest): found for rest, found in self.brokers.items.items()}

    def mode(self, broker: str) -> BrokerMode:
        """Whether a broker may get topics. One that is leaving may not."""
        found = self.broker(broker)
        if found is not None and found.leaving:
            return BrokerMode.DRAINING
        state = self.states.items.get(f"{part(broker)}/state")
        return BrokerMode.ACTIVE if state is None else state.mode

    def topics_of(self, broker: str | None) -> Iterator[tuple[TopicName, Owner, int]]:
        """The topics of a broker, or of all brokers, with the revisions of their records."""
        for rest, owner in self.owners.items.items():
            if broker is None or owner.broker == broker:
                yield assignments.topic_of(rest), owner, self.owners.revisions[rest]

    def leader(self) -> tuple[str | None, int]:
        """The known leader and its term; (None, 0) if there is none."""
        found = self.leaders.items.get("")
        return (None, 0) if found is None else (found.broker, self.leaders.revisions[""])


def _state(item: KeyValue) -> BrokerState | None:
    # The same prefix contains each broker's topics, which are in the owners' table.
    if item.key.count("/") != 4 or not item.key.endswith("/state"):
        return None
    return record.decode(BrokerState, item)


def _leader(item: KeyValue) -> LeaderRecord | None:
    return record.decode(LeaderRecord, item) if item.key == leader.KEY else None
