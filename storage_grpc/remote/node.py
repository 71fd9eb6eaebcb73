"""One storage node on another machine: ``Node`` over gRPC.

It stands for one incarnation of the node's data, which it names in every call. If the node comes
back with another incarnation, all calls fail with an unknown outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from google.protobuf.message import Message

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import Entry, LedgerStat, check_ids
from storage_grpc.node import FencedLedger
from storage_grpc.remote.appends import Appends
from storage_grpc.remote.call_batcher import CallBatcher
from storage_grpc.remote.link import Link
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.layout import DamagedMessage, ReceivedEntry, unpack_entries
from sulina.errors import UnknownOutcome
from sulina.runtime.seam import Buffer, Clock

_INT64_MAX: Final = (1 << 63) - 1


def member_name(name: str, incarnation: str) -> str:
    """The name of a node in ledger metadata."""
    return f"{name}@{incarnation[:8]}"


class RemoteNode:
    """``Node`` over a link, which the caller closes.

    Calls have no deadline of their own. The link's pings detect a dead peer; then every call fails
    with ``UnknownOutcome``. Fences, recovery reads and small reads are batched, and are made even
    if their callers are cancelled.
    """

    def __init__(
        self, link: Link, hello: pb.HelloReply, settings: RemoteSettings, clock: Clock
    ) -> None:
        self.name: str = hello.id
        self.id = member_name(hello.id, hello.incarnation)
        self.incarnation = hello.incarnation
        self.life = hello.life
        self.tier = hello.tier
        """Where it stores objects; empty without an object store. Updated by its monitor."""
        self._link = link
        self._appends = Appends(
            self.id,
            lambda: link.open_appends(hello.incarnation, hello.life),
            hello.max_entry_bytes,
            settings,
            clock,
            traces=hello.traces,
        )
        self._fences = CallBatcher(self.id, self._many)
        self._reads = CallBatcher(self.id, self._many)

    @property
    def link(self) -> Link:
        """The connection, for calls that any node can answer."""
        return self._link

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of unanswered appends."""
        return self._appends.pending_bytes

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        return self._appends.append(ledger, entry, lac, payload, recovery=recovery)

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        check_ids(ledger, first, -1)
        request = pb.ReadRequest(
            ledger=ledger,
            first=first,
            max_entries=min(max_entries, _INT64_MAX),
            max_bytes=min(max_bytes, _INT64_MAX),
            head=head,
        )
        if head is None and max_entries > 1:
            # Large reads gain nothing in a batch, and would be copied twice.
            return self._entries(await self._ask_raw("Read", request), ledger, first)
        return await self._batched_read("Read", request, pb.Ask(read=request))

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        check_ids(ledger, first, -1)
        request = pb.RecoveryReadRequest(
            ledger=ledger,
            first=first,
            max_entries=min(max_entries, _INT64_MAX),
            max_bytes=min(max_bytes, _INT64_MAX),
        )
        return await self._batched_read("RecoveryRead", request, pb.Ask(recovery_read=request))

    async def _batched_read(
        self, name: str, request: pb.ReadRequest | pb.RecoveryReadRequest, ask: pb.Ask
    ) -> list[Entry]:
        async def single() -> pb.Told:
            return pb.Told(entries=await self._ask_raw(name, request))

        told = await self._reads.call(ask, single)
        return self._entries(told.entries, request.ledger, request.first)

    async def fence(self, ledger: int) -> FencedLedger:
        check_ids(ledger, 0, -1)
        request = pb.FenceRequest(ledger=ledger)

        async def single() -> pb.Told:
            reply = await self._link.ask("Fence", request, pb.FenceReply, self.incarnation)
            return pb.Told(fence=reply)

        reply = (await self._fences.call(pb.Ask(fence=request), single)).fence
        tail: list[Entry] = []
        if reply.tail:
            found = self._unpacked(reply.tail)
            tail = self._checked(found, ledger, reply.last_entry - len(found) + 1)
        return FencedLedger(reply.lac, reply.last_entry, reply.certain, tuple(tail))

    async def delete(self, ledger: int) -> None:
        check_ids(ledger, 0, -1)
        request = pb.DeleteRequest(ledger=ledger)
        await self._link.ask("Delete", request, pb.DeleteReply, self.incarnation)

    async def ledgers(self, after: int | None = None) -> list[int]:
        """A page of the node's ledgers, ascending; empty at the end.

        ``after`` is the last id of the previous page.
        """
        request = pb.ListRequest(after=after)
        return list((await self._link.ask("List", request, pb.ListReply, self.incarnation)).ledgers)

    async def stat(self, ledger: int) -> LedgerStat | None:
        """What the node stores of ``ledger``; None if it is unknown or was deleted."""
        request = pb.StatRequest(ledger=ledger)
        reply = await self._link.ask("Stat", request, pb.StatReply, self.incarnation)
        if not reply.known:
            return None
        return LedgerStat(**{each.name: getattr(reply, each.name) for each in fields(LedgerStat)})

    async def close(self) -> None:
        """Cancel all calls; unanswered ones have an unknown outcome."""
        await self._appends.close()
        await self._fences.close()
        await self._reads.close()

    async def _many(self, request: pb.ManyRequest) -> pb.ManyReply:
        return await self._link.ask("Many", request, pb.ManyReply, self.incarnation)

    async def _ask_raw(self, name: str, request: Message) -> bytes:
        return await self._link.ask_raw(name, request, self.incarnation)

    def _entries(self, message: bytes, ledger: int, first: int) -> list[Entry]:
        """Decode a read: consecutive entries of ``ledger`` from ``first`` on, or an error."""
        return self._checked(self._unpacked(message), ledger, first)

    def _unpacked(self, message: bytes) -> list[ReceivedEntry]:
        try:
            return unpack_entries(message)
        except DamagedMessage as damaged:
            raise UnknownOutcome(f"the answer of {self.id} is damaged: {damaged}") from None

    def _checked(self, found: Sequence[ReceivedEntry], ledger: int, first: int) -> list[Entry]:
        expected = [(ledger, first + step) for step in range(len(found))]
        if not found or [(entry.ledger, entry.entry) for entry in found] != expected:
            raise UnknownOutcome(f"{self.id} returned other entries than requested")
        return [Entry(ledger, entry.entry, entry.lac, entry.payload) for entry in found]
