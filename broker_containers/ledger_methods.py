"""Administrative methods about ledgers and their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from broker_containers.arguments import Arguments, Method, number, text
from broker_containers.broker.broker import Broker
from broker_containers.topic_log.managed_ledger import ManagedLedger
from storage_grpc.tier.tier import Tier, head_of, key_of
from sulina.errors import CorruptEntry, NotFound, Refused, Unavailable
from sulina.metadata.keys import ledgers
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.model import Delivery
from sulina.names import TopicName

Call = Callable[[str, Arguments], Awaitable[Any]]


class LedgerMethods:
    """The methods, for ``Admin`` to offer; ``call`` reaches those of other brokers."""

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self._call = call

    def methods(self) -> dict[str, Method]:
        """All of them, by name."""
        return {
            "ledger.list": self._list,
            "ledger.offload": self._offload,
            "ledger.verify": self._verify,
        }

    async def _parts(self, arguments: Arguments) -> tuple[TopicName, list[TopicName]]:
        name = TopicName.parse(text(arguments, "topic"))
        found = await self._broker.describe(name, create=False, delivery=None)
        if found.delivery is not Delivery.RELIABLE:
            raise Refused(f"{name} is {found.delivery}: it stores nothing, so it has no ledgers")
        return name, [name.partition(n) for n in range(found.partitions)] or [name]

    async def _list(self, arguments: Arguments) -> Any:
        """The ledgers of a topic and all its partitions, as the metadata has them."""
        _, parts = await self._parts(arguments)
        rows = []
        for part in parts:
            stored = await ledgers.get(self._broker.store, part)
            rows += [ledger_row(part, ref) for ref in stored.list.ledgers]
        return rows

    async def _offload(self, arguments: Arguments) -> Any:
        """Close what is being written and make objects of everything, now.

        Returns what is to become objects, and up to which offset of each partition.
        """
        name, parts = await self._parts(arguments)
        if parts != [name]:
            answers = [await self._call("ledger.offload", {"topic": str(part)}) for part in parts]
            return {
                "topic": str(name),
                "ledgers": sum(answer["ledgers"] for answer in answers),
                "bytes": sum(answer["bytes"] for answer in answers),
                "until": {k: v for answer in answers for k, v in answer["until"].items()},
            }
        if not self._broker.tiering.ready:
            raise _no_tier()
        log = (await self._broker.topic(name, create=False)).log
        assert isinstance(log, ManagedLedger)
        wanted = await self._broker.tiering.flush(log)
        if not log.usable:
            raise Unavailable(
                f"the ledger of {name} that is written can't be closed now: try again"
            )
        return {
            "topic": str(name),
            "ledgers": len(wanted),
            "bytes": sum(ref.bytes for ref in wanted),
            "until": {str(name): log.end},
        }

    async def _verify(self, arguments: Arguments) -> Any:
        """Read one ledger's object as a whole and compare it with what is known of it."""
        topic = TopicName.parse(text(arguments, "topic"))
        ledger = number(arguments, "ledger", 0)
        stored = await ledgers.get(self._broker.store, topic)
        ref = next((ref for ref in stored.list.ledgers if ref.id == ledger), None)
        if ref is None:
            raise NotFound(
                f"{topic} has no ledger {ledger}: `sulina ledger list` shows those it has"
            )
        if ref.tiered is None:
            raise Refused(f"ledger {ledger} of {topic} is not an object yet")
        tier = self._broker.tier
        if tier is None or not tier.ready:
            raise _no_tier()
        await _verified(tier, topic, ref)
        return ledger_row(topic, ref)


async def _verified(tier: Tier, topic: TopicName, ref: LedgerRef) -> None:
    assert ref.tiered is not None
    head = head_of(topic, ref)
    found = await tier.verify(head)
    there = (found.last_offset, found.digest, found.size)
    wanted = (ref.last_offset, ref.tiered.digest, ref.tiered.size)
    if there != wanted:
        raise CorruptEntry(
            f"the object {key_of(head)} is whole, but not the one made of ledger {ref.id}: last "
            f"offset, digest and size are {there} and should be {wanted}"
        )


def ledger_row(topic: TopicName, ref: LedgerRef) -> dict[str, Any]:
    """One ledger as plain data."""
    tiered = ref.tiered
    if tiered is None:
        where = "entries"
    else:
        where = "entries and object" if tiered.local else "object"
    return {
        "topic": str(topic),
        "ledger": ref.id,
        "state": ref.state.value,
        "where": where,
        "first_offset": ref.first_offset,
        "last_offset": ref.last_offset,
        "records": ref.records if ref.last_offset is not None else None,
        "bytes": ref.bytes,
        "first_time_us": ref.first_time_us,
        "last_time_us": ref.last_time_us,
        "object_bytes": None if tiered is None else tiered.size,
        "digest": None if tiered is None else tiered.digest,
        "key": None if tiered is None else key_of(head_of(topic, ref)),
    }


def _no_tier() -> Unavailable:
    return Unavailable(
        "there is no object store: start the broker, or the storage nodes of a cluster, with --tier"
    )
