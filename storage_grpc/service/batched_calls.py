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
_MAX_CALLS: Final = 4096
_READS_AT_ONCE: Final = 8
"""Reads made at the same time: only these can take an answer beyond its limit."""


class BatchedCalls:
    """Answers ``ManyRequest`` with the methods for single calls."""

    def __init__(
        self,
        fence: Callable[[pb.FenceRequest], Awaitable[pb.FenceReply]],
        read: Callable[[pb.ReadRequest], Awaitable[bytes]],
        recovery_read: Callable[[pb.RecoveryReadRequest], Awaitable[bytes]],
        max_bytes: int,
    ) -> None:
        self._fence = fence
        self._read = read
        self._recovery_read = recovery_read
        self._max_bytes = max_bytes

    async def answer(self, request: pb.ManyRequest) -> Message:
        """Raises ``Refused`` for too many calls; every other failure is in its call's answer."""
        if len(request.asks) > _MAX_CALLS:
            raise Refused(f"{len(request.asks)} calls in one batch: send at most {_MAX_CALLS}")
        told = [pb.Told() for _ in request.asks]
        both = list(zip(request.asks, told, strict=True))
        reads = [(ask, answer) for ask, answer in both if ask.WhichOneof("what") != "fence"]
        fences = [(ask, answer) for ask, answer in both if ask.WhichOneof("what") == "fence"]
        # All fences become durable together; reads run at the same time.
        await asyncio.gather(*(self._one(*each) for each in fences), self._all_reads(reads))
        return pb.ManyReply(answers=told)

    async def _all_reads(self, reads: Sequence[tuple[pb.Ask, pb.Told]]) -> None:
        room = self._max_bytes
        for start in range(0, len(reads), _READS_AT_ONCE):
            group = reads[start : start + _READS_AT_ONCE]
            if room <= 0:
                for _, told in group:
                    _set_error(
                        told, Overloaded("the batch is full: repeat this read as a single call")
                    )
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
                    raise Refused(
                        "unknown kind of call in a batch: is the node older than its client?"
                    )
        except SulinaError as error:
            _set_error(told, error)
        except Exception:
            _log.exception("a call of a batch failed")
            _set_error(told, UnknownOutcome("the node failed unexpectedly; see its log"))


def _set_error(told: pb.Told, error: SulinaError) -> None:
    told.code = pb.Code.ValueType(code_of(error))
    told.message = str(error)[:MAX_MESSAGE]
