"""The methods of the cold tier, for nodes with an object store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message

from storage_grpc import storage_pb2 as pb
from storage_grpc.node import Node
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.service.calls import StorageCalls
from storage_grpc.tier.peers import GatheredEntries, Links, PeerNode
from storage_grpc.tier.tier import OffloadJob
from storage_grpc.tier.wire import (
    from_head,
    from_job,
    from_mark,
    from_offsets,
    from_schema,
    pack_frames,
    to_made,
    to_summary,
)
from sulina.errors import Unavailable
from sulina.names import TopicName

if TYPE_CHECKING:
    # Its packages are not installed on nodes without a tier.
    from storage_grpc.tier.local import LocalTier

_PEER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ServedTier:
    """The tier of a node and its location."""

    tier: LocalTier
    place: str
    """URL of its objects, without secrets."""


class TierCalls:
    """The methods. Without a tier they fail with ``Unavailable``."""

    def __init__(
        self,
        calls: StorageCalls,
        node: Node,
        member: str,
        served: ServedTier | None,
        max_read: int,
        others: RemoteSettings,
    ) -> None:
        """``member`` is this node's name in ledger metadata; ``others`` are the settings for
        connections to other nodes."""
        self._calls = calls
        self._node = node
        self._member = member
        self._served = served
        self._max_read = max_read
        self._links = Links(others)

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """gRPC handlers by method name."""
        handler = self._calls.handler
        return {
            "Offload": handler(pb.OffloadRequest, self._offload, any_incarnation=True),
            "Replace": handler(pb.ReplaceRequest, self._replace, any_incarnation=True),
            "CountKeys": handler(pb.CountKeysRequest, self._count_keys, any_incarnation=True),
            "ReadTiered": handler(pb.ReadTieredRequest, self._read, any_incarnation=True),
            "ReadControl": handler(pb.ReadControlRequest, self._control, any_incarnation=True),
            "VerifyTiered": handler(pb.VerifyTieredRequest, self._verify, any_incarnation=True),
            "DeleteTiered": handler(pb.DeleteTieredRequest, self._delete, any_incarnation=True),
            "MarkRemoved": handler(pb.MarkRemovedRequest, self._mark, any_incarnation=True),
            "Keeping": handler(pb.KeepingRequest, self._keeping, any_incarnation=True),
        }

    async def close(self) -> None:
        """Close the connections to other nodes."""
        await self._links.close()

    @property
    def _tier(self) -> LocalTier:
        if self._served is None:
            raise Unavailable("this node has no object store: start it with --tier")
        return self._served.tier

    async def _offload(self, request: pb.OffloadRequest) -> Message:
        tier = self._tier
        job = OffloadJob(
            from_head(request.head),
            request.last_offset,
            request.last_entry,
            request.closing,
            tuple(map(from_schema, request.schemas)),
        )
        peers = {
            peer.member: PeerNode(peer.address, peer.incarnation)
            for peer in request.peers
            if peer.member != self._member
        }
        holders = [(each.first_entry, tuple(each.members)) for each in request.holders]
        source = GatheredEntries(self._node, self._links, holders, peers, _PEER_SECONDS)
        return to_made(await tier.offload(job, source))

    async def _replace(self, request: pb.ReplaceRequest) -> Message:
        return to_made(await self._tier.replace(from_job(request)))

    async def _count_keys(self, request: pb.CountKeysRequest) -> Message:
        offsets = from_offsets(request.offsets)
        found = await self._tier.count_erasable(
            from_head(request.head), request.key_digests, offsets
        )
        return pb.CountKeysReply(records=found, by_offset=bool(offsets))

    async def _read(self, request: pb.ReadTieredRequest) -> bytes:
        head = from_head(request.head)
        if request.HasField("time_us"):
            found = await self._tier.read_at(head, request.time_us)
            return pack_frames(head.ledger, [] if found is None else [found])
        then = from_head(request.then) if request.HasField("then") else None
        size = min(request.max_bytes, self._max_read)
        return pack_frames(head.ledger, await self._tier.read(head, request.offset, size, then))

    async def _control(self, request: pb.ReadControlRequest) -> bytes:
        head = from_head(request.head)
        return pack_frames(head.ledger, await self._tier.control(head))

    async def _verify(self, request: pb.VerifyTieredRequest) -> Message:
        return to_summary(await self._tier.verify(from_head(request.head)))

    async def _mark(self, request: pb.MarkRemovedRequest) -> Message:
        former = [from_mark(each) for each in request.former]
        topic = TopicName.parse(request.topic)
        await self._tier.mark_removed(topic, from_mark(request.mark), former)
        return pb.MarkRemovedReply()

    async def _keeping(self, _: pb.KeepingRequest) -> Message:
        found = await self._tier.keeping()
        return pb.KeepingReply(text=found.text, days=found.days)

    async def _delete(self, request: pb.DeleteTieredRequest) -> Message:
        await self._tier.delete(
            [from_head(head) for head in request.heads],
            [from_head(head) for head in request.notices],
        )
        return pb.DeleteTieredReply()
