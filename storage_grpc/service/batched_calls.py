"""Many small calls in one: each has its own answer, and all answers together stay bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from google.protobuf.message import Message

from storage_grpc import storage_pb2 as pb
from storage_grpc.remote.wire.codes import code_of
from storage_grpc.remote.wire.layout import MAX_MESSAGE
from sulina.errors import Overloaded, Refused, SulinaError, UnknownOutcome

_log = logging.getLogger(__name__)
_MOST: Final = 4096
"""Asks in one call."""
_READS_AT_ONCE: Final = 8
"""Under way at the same time; by no more entries than that an answer may become too large."""


class BatchedCalls:
    """Answers ``ManyRequest`` by the methods for single calls."""

    def __init__(
        self,
        fence: Callable[[pb.FenceRequest], Awaitable[pb.FenceReply]],
        read: Callable[[pb.ReadRequest], Awaitable[bytes]],
        recovery_read: Callable[[pb.RecoveryReadRequest], Awaitable[bytes]],
        most_bytes: int,
    ) -> None:
        self._fence = fence
        self._read = read
        self._recovery_read = recovery_read
        self._most_bytes = most_bytes

    async def answer(self, request: pb.ManyRequest) -> Message:
        """Raises ``Refused`` for too many asks; whatever else fails is told in its own answer."""
        if len(request.asks) > _MOST:
            raise Refused(f"a call has at most {_MOST} asks and this one {len(request.asks)}")
        told = [pb.Told() for _ in request.asks]
        both = list(zip(request.asks, told, strict=True))
        reads = [(ask, answer) for ask, answer in both if ask.WhichOneof("what") != "fence"]
        fences = [(ask, answer) for ask, answer in both if ask.WhichOneof("what") == "fence"]
        # All fences become durable together; reads go on meanwhile.
        await asyncio.gather(*(self._one(*each) for each in fences), self._all_reads(reads))
        return pb.ManyReply(answers=told)

    async def _all_reads(self, reads: Sequence[tuple[pb.Ask, pb.Told]]) -> None:
        room = self._most_bytes
        for start in range(0, len(reads), _READS_AT_ONCE):
            group = reads[start : start + _READS_AT_ONCE]
            if room <= 0:
                for _, told in group:
                    _tell(told, Overloaded("no room is left in this answer: ask for it alone"))
                continue
            await asyncio.gather(*(self._one(*each) for each in group))
            room -= sum(len(told.entries) for _, told in group)

    async def _one(self, ask: pb.Ask, told: pb.Told) -> None:
        try:
            match ask.WhichOneof("what"):
                case "fence":
                    told.fence.CopyFrom(await self._fence(ask.fence))
                case "read":
                    told.entries = await self._read(ask.read)
                case "recovery_read":
                    told.entries = await self._recovery_read(ask.recovery_read)
                case _:
                    raise Refused("an ask is of a kind that this node does not know")
        except SulinaError as error:
            _tell(told, error)
        except Exception:
            _log.exception("one of many calls failed")
            _tell(told, UnknownOutcome("the node failed unexpectedly; see its log"))


def _tell(told: pb.Told, error: SulinaError) -> None:
    told.code = pb.Code.ValueType(code_of(error))
    told.message = str(error)[:MAX_MESSAGE]
