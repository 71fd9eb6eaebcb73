"""The cold tier of a cluster: brokers have storage nodes write and read objects.

A ledger is offloaded by a node that has its entries, if one of them has an object store; if that
fails, by the next node. Reads of one object go to the same node, so that its read-ahead is used,
and to the next one if it fails or is slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from storage_grpc import storage_pb2 as pb
from storage_grpc.remote.node import RemoteNode
from storage_grpc.tier.tier import Offloaded, OffloadJob, ReplaceJob
from storage_grpc.tier.wire import (
    from_made,
    from_summary,
    to_head,
    to_job,
    to_mark,
    to_offsets,
    to_schema,
    unpack_frames,
)
from sulina.errors import NotFound, Refused, SulinaError, Unavailable
from sulina.lake.layout import RemovedMark
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.erasures import Ranges
from sulina.metadata.keys.ledger_metadata import LedgerMetadata
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.objects.keeping import Keeping
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_DELETED_AT_ONCE: Final = 100
_OFFLOAD_SECONDS: Final = 900.0
_VERIFY_SECONDS: Final = 900.0
_CALL_SECONDS: Final = 30.0
"""Timeout of reads and deletions."""


class TierNodes(Protocol):
    """The part of ``RemoteNodes`` that is used here."""

    def get(self, member: str) -> RemoteNode | None: ...

    def with_tier(self) -> list[RemoteNode]: ...

    def near(self, member: str) -> bool: ...


class RemoteTier:
    """``Tier`` over the storage nodes of a cluster."""

    def __init__(
        self,
        nodes: TierNodes,
        store: MetadataStore,
        clock: Clock,
        hedge_seconds: float = 2.0,
    ) -> None:
        """After ``hedge_seconds`` a read is sent to a second node as well."""
        self._nodes = nodes
        self._store = store
        self._clock = clock
        self._hedge_seconds = hedge_seconds
        self._elsewhere = ""
        """The nodes of the last warning, which is not repeated."""

    @property
    def ready(self) -> bool:
        return bool(self._nodes.with_tier())

    async def offload(self, job: OffloadJob) -> Offloaded:
        metadata = (await ledger_metadata.get(self._store, job.head.ledger)).value
        request = pb.OffloadRequest(
            head=to_head(job.head),
            last_offset=job.last_offset,
            last_entry=job.last_entry,
            closing=job.closing,
            holders=[
                pb.Holders(first_entry=fragment.first_entry, members=fragment.ensemble)
                for fragment in metadata.fragments
            ],
            peers=self._peers(metadata),
            schemas=map(to_schema, job.schemas),
        )

        async def call(node: RemoteNode) -> Offloaded:
            return from_made(job.head, await node.link.ask("Offload", request, pb.OffloadReply))

        members = [member for each in metadata.fragments for member in each.ensemble]
        # Nodes with most of the entries come first.
        nodes = sorted(self._turned(job.head), key=lambda node: -members.count(node.id))
        return await self._first(nodes, call, _OFFLOAD_SECONDS)

    async def replace(self, job: ReplaceJob) -> Offloaded:
        request = to_job(job)

        async def call(node: RemoteNode) -> Offloaded:
            return from_made(job.head, await node.link.ask("Replace", request, pb.OffloadReply))

        return await self._first(self._turned(job.head), call, _OFFLOAD_SECONDS)

    async def count_erasable(
        self, head: ObjectHead, key_digests: Sequence[str], offsets: Ranges = ()
    ) -> int:
        request = pb.CountKeysRequest(
            head=to_head(head), key_digests=key_digests, offsets=to_offsets(offsets)
        )

        async def call(node: RemoteNode) -> int:
            found = await node.link.ask("CountKeys", request, pb.CountKeysReply)
            if offsets and not found.by_offset:
                raise Refused(f"{node.id} cannot erase by offset: use a newer version")
            return found.records

        return await self._first(self._turned(head), call, _VERIFY_SECONDS)

    def _peers(self, metadata: LedgerMetadata) -> list[pb.Peer]:
        members = {member for each in metadata.fragments for member in each.ensemble}
        found = [(member, self._nodes.get(member)) for member in sorted(members)]
        return [
            pb.Peer(member=member, address=node.link.address, incarnation=node.incarnation)
            for member, node in found
            if node is not None
        ]

    async def read(
        self, head: ObjectHead, offset: int, max_bytes: int, then: ObjectHead | None = None
    ) -> Sequence[memoryview]:
        request = pb.ReadTieredRequest(
            head=to_head(head),
            offset=offset,
            max_bytes=max_bytes,
            then=None if then is None else to_head(then),
        )
        return await self._frames("ReadTiered", head, request)

    async def read_at(self, head: ObjectHead, time_us: int) -> memoryview | None:
        request = pb.ReadTieredRequest(head=to_head(head), time_us=time_us)
        found = await self._frames("ReadTiered", head, request)
        return found[0] if found else None

    async def control(self, head: ObjectHead) -> Sequence[memoryview]:
        return await self._frames("ReadControl", head, pb.ReadControlRequest(head=to_head(head)))

    async def _frames(
        self, name: str, head: ObjectHead, request: pb.ReadTieredRequest | pb.ReadControlRequest
    ) -> list[memoryview]:
        async def call(node: RemoteNode) -> list[memoryview]:
            return unpack_frames(await node.link.ask_raw(name, request), node.id)

        # What a node of another zone sends costs.
        nodes = sorted(self._turned(head), key=lambda node: not self._nodes.near(node.id))
        return await self._first(nodes, call, _CALL_SECONDS, self._hedge_seconds)

    async def verify(self, head: ObjectHead) -> ObjectSummary:
        request = pb.VerifyTieredRequest(head=to_head(head))

        async def call(node: RemoteNode) -> ObjectSummary:
            reply = await node.link.ask("VerifyTiered", request, pb.VerifyTieredReply)
            return from_summary(head, reply)

        return await self._first(self._turned(head), call, _VERIFY_SECONDS)

    async def mark_removed(
        self, topic: TopicName, mark: RemovedMark, former: Sequence[RemovedMark]
    ) -> None:
        request = pb.MarkRemovedRequest(
            topic=str(topic), mark=to_mark(mark), former=map(to_mark, former)
        )

        async def call(node: RemoteNode) -> pb.MarkRemovedReply:
            return await node.link.ask("MarkRemoved", request, pb.MarkRemovedReply)

        head = ObjectHead(topic, mark.ledger, 0)
        await self._first(self._turned(head), call, _CALL_SECONDS)

    async def keeping(self) -> Keeping:
        async def call(node: RemoteNode) -> pb.KeepingReply:
            return await node.link.ask("Keeping", pb.KeepingRequest(), pb.KeepingReply)

        nodes = self._turned(ObjectHead(TopicName.parse("/default/any"), 0, 0))
        found = await self._first(nodes, call, _CALL_SECONDS)
        return Keeping(found.text, found.days if found.HasField("days") else None)

    async def delete(self, heads: Sequence[ObjectHead], notices: Sequence[ObjectHead] = ()) -> None:
        for start in range(0, len(heads), _DELETED_AT_ONCE):
            some = heads[start : start + _DELETED_AT_ONCE]
            await self._delete(some[0], pb.DeleteTieredRequest(heads=map(to_head, some)))
        if notices:
            await self._delete(notices[0], pb.DeleteTieredRequest(notices=map(to_head, notices)))

    async def _delete(self, first: ObjectHead, request: pb.DeleteTieredRequest) -> None:
        async def call(node: RemoteNode) -> pb.DeleteTieredReply:
            return await node.link.ask("DeleteTiered", request, pb.DeleteTieredReply)

        await self._first(self._turned(first), call, _CALL_SECONDS)

    # ---- calls ----

    def _turned(self, head: ObjectHead) -> list[RemoteNode]:
        """Nodes with a tier, rotated by ledger so that work is spread.

        Nodes with another object store than the majority are left out: they lack its objects.
        """
        nodes = self._nodes.with_tier()
        places = Counter(node.tier for node in nodes)
        if len(places) > 1:
            place = max(sorted(places), key=lambda each: places[each])
            others = ", ".join(node.id for node in nodes if node.tier != place)
            nodes = [node for node in nodes if node.tier == place]
            if others != self._elsewhere:
                _log.warning(
                    "%s not used for objects: their object store is not %s, as on most nodes",
                    others,
                    place,
                )
                self._elsewhere = others
        if not nodes:
            raise Unavailable(
                "no storage node with an object store is available: start them with --tier"
            )
        start = head.ledger % len(nodes)
        return [*nodes[start:], *nodes[:start]]

    async def _first(
        self,
        nodes: Sequence[RemoteNode],
        call: Callable[[RemoteNode], Awaitable[_T]],
        seconds: float,
        hedge: float | None = None,
    ) -> _T:
        """The first successful answer. The next node is called after an error, and after ``hedge``
        seconds without an answer."""
        waiting, errors = list(nodes), list[SulinaError]()
        asking: set[asyncio.Task[_T]] = set()
        try:
            while waiting or asking:
                if waiting:
                    node = waiting.pop(0)
                    asking.add(asyncio.create_task(self._ask(node, call, seconds)))
                pause = hedge if waiting else None
                for task in await self._answered(asking, pause):
                    asking.discard(task)
                    error = task.exception()
                    if error is None:
                        return task.result()
                    if not isinstance(error, SulinaError):
                        raise error
                    errors.append(error)
        finally:
            await stop_tasks(*asking)
        raise _verdict(errors)

    async def _ask(
        self, node: RemoteNode, call: Callable[[RemoteNode], Awaitable[_T]], seconds: float
    ) -> _T:
        try:
            return await within(self._clock, seconds, call(node))
        except TimeoutError:
            raise Unavailable(f"{node.id} did not answer within {seconds:g} s") from None

    async def _answered(
        self, asking: set[asyncio.Task[_T]], pause: float | None
    ) -> list[asyncio.Task[_T]]:
        if pause is None:
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        else:
            timer = asyncio.create_task(self._clock.sleep(pause))
            try:
                await asyncio.wait({*asking, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await stop_tasks(timer)
        return [task for task in asking if task.done()]


def _verdict(errors: Sequence[SulinaError]) -> SulinaError:
    """The error of all nodes if they agree, else the first that is not temporary."""
    if len(errors) == 1 or all(isinstance(error, NotFound) for error in errors):
        return errors[0]
    lasting = [error for error in errors if not isinstance(error, Unavailable)]
    return lasting[0] if lasting else Unavailable("; ".join(map(str, errors)))
