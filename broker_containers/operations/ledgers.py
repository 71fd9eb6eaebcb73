"""Handlers of the operations on ledgers and the objects they were tiered to."""

from __future__ import annotations

import re

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.operations.topics import parts_of
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.erasing import digest_of
from broker_containers.topics.erasure_work import waiting_objects
from broker_containers.topics.replacing import records_in
from storage_grpc.tier.tier import Tier, head_of, key_of
from sulina.errors import CorruptEntry, NotFound, Refused, Unavailable
from sulina.metadata.keys import ledgers
from sulina.metadata.keys.erasures import ErasureRequest
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.ledgers import (
    ErasedObject,
    LedgerOperations,
    LedgerRow,
    Offloading,
    OffsetRange,
    Rewriting,
    TopicErasure,
)

_DIGEST = re.compile(r"[0-9a-f]{64}")


class LedgerHandlers:
    """Ledgers; ``admin`` reaches partitions that other brokers own."""

    def __init__(self, broker: Broker, admin: AdminClient) -> None:
        self._broker = broker
        self._admin = admin

    async def _parts(self, topic: str) -> tuple[TopicName, list[TopicName]]:
        name = TopicName.parse(topic)
        found = await self._broker.describe(name, create=False, delivery=None)
        if found.delivery is not Delivery.RELIABLE:
            raise Refused(f"{name} is {found.delivery}: it stores nothing, so it has no ledgers")
        return name, parts_of(name, found)

    @handles(LedgerOperations.list)
    async def list(self, topic: str) -> tuple[LedgerRow, ...]:
        _, parts = await self._parts(topic)
        rows = []
        for part in parts:
            stored = await ledgers.get(self._broker.store, part)
            rows += [_row(part, ref) for ref in stored.list.visible]
        return tuple(rows)

    @handles(LedgerOperations.offload)
    async def offload(self, topic: str) -> Offloading:
        name, parts = await self._parts(topic)
        if parts != [name]:
            started = [await self._admin.ledgers.offload(str(part)) for part in parts]
            return Offloading(
                topic=str(name),
                ledgers=sum(each.ledgers for each in started),
                bytes=sum(each.bytes for each in started),
                until={part: offset for each in started for part, offset in each.until.items()},
            )
        if not self._broker.tiering.ready:
            raise _no_object_store()
        log = (await self._broker.topic(name, create=False)).log
        assert isinstance(log, ManagedLedger)
        wanted = await self._broker.tiering.flush(log)
        if not log.usable:
            raise Unavailable(f"the open ledger of {name} can't be closed now: try again")
        return Offloading(
            topic=str(name),
            ledgers=len(wanted),
            bytes=sum(ref.bytes for ref in wanted),
            until={str(name): log.end},
        )

    @handles(LedgerOperations.erase)
    async def erase(
        self,
        topic: str,
        *,
        key_digests: tuple[str, ...] = (),
        offsets: tuple[OffsetRange, ...] = (),
    ) -> TopicErasure:
        if not all(map(_DIGEST.fullmatch, key_digests)):
            raise Refused("key_digests must be SHA-256 digests of keys, each of 64 hex digits")
        opened = await self._broker.topic(TopicName.parse(topic), create=False)
        ranges = tuple((each.first, each.last) for each in offsets)
        made = await self._broker.erasing.request(opened, key_digests, ranges)
        return await self._erasure(opened.name, made)

    @handles(LedgerOperations.erasures)
    async def erasures(self, topic: str) -> tuple[TopicErasure, ...]:
        name = TopicName.parse(topic)
        await self._broker.describe(name, create=False, delivery=None)
        known = await self._broker.erasing.known(name)
        return tuple([await self._erasure(name, each) for each in known])

    @handles(LedgerOperations.cancel_erasure)
    async def cancel_erasure(self, topic: str, id: int) -> TopicErasure:
        opened = await self._broker.topic(TopicName.parse(topic), create=False)
        return await self._erasure(opened.name, await self._broker.erasing.cancel(opened, id))

    async def _erasure(self, topic: TopicName, found: ErasureRequest) -> TopicErasure:
        proofs = await self._broker.erasing.proofs(topic, found.id)
        left = await waiting_objects(self._broker.store, topic) if found.state.ended else []
        return TopicErasure(
            topic=str(topic),
            id=found.id,
            key_digests=found.key_digests,
            offsets=tuple(OffsetRange(first, last) for first, last in found.offsets),
            began_us=found.began_us,
            ended_us=found.ended_us,
            state=found.state,
            until_offset=found.until,
            searched_offset=found.searched,
            erased=sum(each.erased for each in proofs),
            objects=tuple(
                ErasedObject(each.first_offset, each.last_offset, each.erased, each.others)
                for each in proofs
            ),
            proof=digest_of(proofs),
            gone_us=found.gone_us,
            objects_left=sum(count for _, count in left),
            problem=found.problem,
            versions_gone_us=found.versions_gone_us,
            kept=found.kept,
        )

    @handles(LedgerOperations.rewrite)
    async def rewrite(self, topic: str) -> Rewriting:
        name, parts = await self._parts(topic)
        if parts != [name]:
            found = [await self._admin.ledgers.rewrite(str(part)) for part in parts]
            return Rewriting(
                topic=str(name),
                ledgers=sum(each.ledgers for each in found),
                bytes=sum(each.bytes for each in found),
                waiting=sum(each.waiting for each in found),
            )
        if not self._broker.tiering.ready:
            raise _no_object_store()
        log = (await self._broker.topic(name, create=False)).log
        assert isinstance(log, ManagedLedger)
        left = await self._broker.merging.rewrite(log)
        return Rewriting(
            topic=str(name),
            ledgers=len(left),
            bytes=sum(ref.tiered.size for ref in left if ref.tiered is not None),
            waiting=sum(1 for ref in left if ref.is_local),
        )

    @handles(LedgerOperations.verify)
    async def verify(self, topic: str, ledger: int) -> LedgerRow:
        name = TopicName.parse(topic)
        stored = await ledgers.get(self._broker.store, name)
        ref = next((ref for ref in stored.list.ledgers if ref.id == ledger), None)
        if ref is None:
            raise NotFound(
                f"{name} has no ledger {ledger}: `sulina ledger list` shows those it has"
            )
        if ref.tiered is None:
            raise Refused(f"ledger {ledger} of {name} is not tiered to an object yet")
        tier = self._broker.tier
        if tier is None or not tier.ready:
            raise _no_object_store()
        await _verify(tier, name, ref)
        return _row(name, ref)


async def _verify(tier: Tier, topic: TopicName, ref: LedgerRef) -> None:
    assert ref.tiered is not None
    head = head_of(topic, ref)
    found = await tier.verify(head)
    actual = (found.last_offset, found.digest, found.size)
    expected = (ref.last_offset, ref.tiered.digest, ref.tiered.size)
    if actual != expected:
        raise CorruptEntry(
            f"the object {key_of(head)} is intact, but is not the one written from ledger "
            f"{ref.id}: last offset, digest and size are {actual} and should be {expected}"
        )


def _row(topic: TopicName, ref: LedgerRef) -> LedgerRow:
    tiered = ref.tiered
    if tiered is None:
        where = "entries"
    else:
        where = "entries and object" if tiered.local else "object"
    return LedgerRow(
        topic=str(topic),
        ledger=ref.id,
        state=ref.state,
        where=where,
        first_offset=ref.first_offset,
        last_offset=ref.last_offset,
        records=records_in(ref) if ref.last_offset is not None else None,
        bytes=ref.bytes,
        first_time_us=ref.first_time_us,
        last_time_us=ref.last_time_us,
        object_bytes=None if tiered is None else tiered.size,
        digest=None if tiered is None else tiered.digest,
        key=None if tiered is None else key_of(head_of(topic, ref)),
    )


def _no_object_store() -> Unavailable:
    return Unavailable(
        "there is no object store: start the broker, or the storage nodes of a cluster, with --tier"
    )
