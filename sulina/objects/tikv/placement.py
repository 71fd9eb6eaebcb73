"""PD, the servers that place regions on stores and issue timestamps. One of them leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError

from sulina.errors import Refused
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv import methods
from sulina.objects.tikv.failures import LinkFailure, of_call, of_placement
from sulina.objects.tikv.links import Links, Stream
from sulina.objects.tikv.patience import PAUSES_FOR_PD, Patience
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock, Randomness

_Answer = TypeVar("_Answer", pb.RegionAnswer, pb.StoreAnswer)
_SECONDS: Final = 5.0
"""For one answer of PD, which is normally there within a millisecond."""
LOGICAL_BITS: Final = 18
"""Of a timestamp; those above are milliseconds since 1970."""
_TOMBSTONE: Final = 2


class Placement:
    """A client of PD: finds the leader, and finds it again when it changed.

    Every call may raise ``TemporaryFailure`` after a bounded number of attempts, and ``Refused``.
    """

    def __init__(
        self, addresses: Sequence[str], links: Links, clock: Clock, random: Randomness
    ) -> None:
        self._configured = list(addresses)
        self._members = list(addresses)
        self._links = links
        self._clock = clock
        self._random = random
        self._leader: str | None = None
        self._cluster_id = 0
        self._finding = asyncio.Lock()
        self._stream: Stream | None = None
        self._one_at_a_time = asyncio.Lock()

    async def timestamp(self) -> int:
        """A timestamp greater than all that were issued before this call."""
        patience = Patience(self._clock, self._random, PAUSES_FOR_PD)
        while True:
            leader = None
            try:
                leader = await self._find_leader()
                async with self._one_at_a_time:
                    return await within(self._clock, _SECONDS, self._next_timestamp(leader))
            except TimeoutError:
                failure = LinkFailure(f"PD at {leader} issued no timestamp within {_SECONDS:g} s")
            except LinkFailure as error:
                failure = error
            self._forget(leader)
            await patience.pause(failure)

    async def region(self, key: bytes) -> tuple[pb.RegionMeta, pb.Peer]:
        """The region of an encoded key, and its leader, or one of its peers if PD does not know."""
        request = pb.RegionRequest(region_key=key)
        patience = Patience(self._clock, self._random, PAUSES_FOR_PD)
        while True:
            answer = await self._ask(methods.REGION, request, pb.RegionAnswer)
            peers = [each for each in answer.region.peers if not each.is_witness]
            if answer.leader.id:
                return answer.region, answer.leader
            if (
                peers
            ):  # a new leader of PD does not know yet: a peer that does not lead says who does
                return answer.region, peers[int(self._random.random() * len(peers))]
            await patience.pause(LinkFailure("PD does not know a region yet"))

    async def store_address(self, store_id: int) -> str:
        """Where a store is served."""
        request = pb.StoreRequest(store_id=store_id)
        store = (await self._ask(methods.STORE, request, pb.StoreAnswer)).store
        if not store.address or store.state == _TOMBSTONE:
            raise LinkFailure(f"store {store_id} of TiKV was removed")
        return store.address

    # ---- requests ----

    async def _ask(
        self, path: str, request: pb.RegionRequest | pb.StoreRequest, answer: type[_Answer]
    ) -> _Answer:
        patience = Patience(self._clock, self._random, PAUSES_FOR_PD)
        while True:
            leader = None
            try:
                leader = await self._find_leader()
                request.header.cluster_id = self._cluster_id
                found = await self._links.ask(leader, path, request, answer, _SECONDS)
                self._check(found.header)
                return found
            except LinkFailure as error:
                failure = error
            self._forget(leader)
            await patience.pause(failure)

    async def _next_timestamp(self, leader: str) -> int:
        request = pb.TimestampRequest(header=self._header(), count=1)
        stream = self._stream
        try:
            if stream is None:
                stream = self._stream = await self._links.stream(leader, methods.TIMESTAMPS)
            await stream.write(request.SerializeToString())
            data = await stream.read()
            if not isinstance(data, bytes):
                raise LinkFailure(f"PD at {leader} ended its stream of timestamps")
            answer = pb.TimestampAnswer.FromString(data)
            self._check(answer.header)
        except BaseException as error:
            # An answer that nobody read would be taken for the next one.
            self._stream = None
            if stream is not None:
                stream.cancel()
            raise _translated(error, leader) from None
        return (answer.timestamp.physical << LOGICAL_BITS) + answer.timestamp.logical

    async def _find_leader(self) -> str:
        """The address of the leader. Raises ``LinkFailure`` if no member knows it."""
        async with self._finding:
            if self._leader is not None:
                return self._leader
            failure = LinkFailure("no address of PD is known")
            for address in dict.fromkeys((*self._members, *self._configured)):
                request = pb.MembersRequest(header=self._header())
                try:
                    answer = await self._links.ask(
                        address, methods.MEMBERS, request, pb.MembersAnswer, _SECONDS
                    )
                    self._check(answer.header)
                except LinkFailure as error:
                    failure = error
                    continue
                leader = _address(answer.leader)
                if leader is None:
                    failure = LinkFailure(f"PD at {address} knows no leader")
                    continue
                self._members = [found for each in answer.members if (found := _address(each))]
                self._leader = leader
                return leader
            raise failure

    def _check(self, header: pb.PdAnswerHeader) -> None:
        if header.HasField("error") and header.error.type:
            raise of_placement(header.error)
        if self._cluster_id and header.cluster_id != self._cluster_id:
            raise Refused(
                f"the addresses of PD belong to several clusters ({self._cluster_id} and "
                f"{header.cluster_id}): name the members of one in the URL"
            )
        self._cluster_id = header.cluster_id

    def _forget(self, leader: str | None) -> None:
        if leader is not None and self._leader == leader:
            self._leader = None
            if self._stream is not None:
                self._stream.cancel()
                self._stream = None

    def _header(self) -> pb.PdHeader:
        return pb.PdHeader(cluster_id=self._cluster_id)


def _address(member: pb.Member) -> str | None:
    """Host and port, of the first of the URLs for clients."""
    for url in member.client_urls:
        return urlsplit(url).netloc or url
    return None


def _translated(error: BaseException, leader: str) -> BaseException:
    if isinstance(error, grpc.aio.AioRpcError):
        return of_call(error, leader)
    if isinstance(error, grpc.aio.UsageError | asyncio.InvalidStateError | DecodeError):
        return LinkFailure(f"the stream of timestamps from {leader} was closed")
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and not task.cancelling():  # the connection was closed, not the caller
            return LinkFailure(f"the stream of timestamps from {leader} was closed")
    return error
