"""The unary methods of the service: all but Append.

A call that fails ends with a status and a code. An unexpected exception is logged and answered as
an unknown outcome.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Never, TypeVar

import grpc
from google.protobuf.message import Message

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import EntryStore
from storage_grpc.node import Node
from storage_grpc.remote.wire.codes import CODE_KEY, code_of, status_of
from storage_grpc.remote.wire.layout import MAX_MESSAGE, pack_entries
from storage_grpc.remote.wire.service import INCARNATION_KEY, LIFE_KEY
from storage_grpc.service.batched_calls import BatchedCalls
from sulina.errors import Refused, SulinaError, Unavailable, UnknownOutcome

_log = logging.getLogger(__name__)
_Request = TypeVar("_Request", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]

_LIST_LIMIT = 10_000


class StorageCalls:
    """The methods, over one node and its store."""

    def __init__(
        self,
        node: Node,
        store: EntryStore,
        incarnation: str,
        hello: Callable[[], pb.HelloReply],
        max_read: int,
    ) -> None:
        self._node = node
        self._store = store
        self._incarnation = incarnation
        self._hello = hello
        self._max_read = max_read
        self._many = BatchedCalls(self._fence, self._read, self._recovery_read, max_read)

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """gRPC handlers by method name."""
        return {
            "Hello": self.handler(pb.HelloRequest, self._say_hello, any_incarnation=True),
            "Read": self.handler(pb.ReadRequest, self._read),
            "RecoveryRead": self.handler(pb.RecoveryReadRequest, self._recovery_read),
            "Fence": self.handler(pb.FenceRequest, self._fence),
            "Delete": self.handler(pb.DeleteRequest, self._delete),
            "List": self.handler(pb.ListRequest, self._list, any_incarnation=True),
            "Stat": self.handler(pb.StatRequest, self._stat, any_incarnation=True),
            "Many": self.handler(pb.ManyRequest, self._many.answer),
        }

    def check_incarnation(self, context: Context, *, any_incarnation: bool = False) -> None:
        """Raise ``Unavailable`` if the caller expects another node, ``Refused`` if none."""
        expected = dict(context.invocation_metadata() or ()).get(INCARNATION_KEY)
        if expected is None and not any_incarnation:
            raise Refused(f"the call names no incarnation: set {INCARNATION_KEY}")
        if expected is not None and expected != self._incarnation:
            raise Unavailable(
                f"another node answers at this address: its incarnation is {self._incarnation}, "
                f"not {expected!r}"
            )

    def check_life(self, context: Context) -> None:
        """Raise ``Unavailable`` if the caller names another life of the node, or none."""
        known = dict(context.invocation_metadata() or ()).get(LIFE_KEY, "")
        if known != self._node.life:
            raise Unavailable(
                "the node restarted and may have lost a fence: call Hello for its new life "
                f"(the call has {LIFE_KEY} {known!r})"
            )

    def handler(
        self,
        request_type: type[_Request],
        call: Callable[[_Request], Awaitable[Message | bytes]],
        *,
        any_incarnation: bool = False,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler for one method, with the checks and errors common to all."""

        async def handle(request: _Request, context: Context) -> bytes:
            try:
                self.check_incarnation(context, any_incarnation=any_incarnation)
                answer = await call(request)
            except SulinaError as error:
                await abort(context, error)
            except Exception:
                _log.exception("%s failed", type(request).__name__)
                await abort(context, UnknownOutcome("the node failed unexpectedly; see its log"))
            return answer if isinstance(answer, bytes) else answer.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(
            handle, request_deserializer=request_type.FromString
        )

    async def _say_hello(self, _: pb.HelloRequest) -> Message:
        return self._hello()

    async def _read(self, request: pb.ReadRequest) -> bytes:
        found = await self._node.read(
            request.ledger,
            request.first,
            max_entries=request.max_entries,
            max_bytes=min(request.max_bytes, self._max_read),
            head=request.head if request.HasField("head") else None,
        )
        return pack_entries(found)

    async def _recovery_read(self, request: pb.RecoveryReadRequest) -> bytes:
        found = await self._node.recovery_read(
            request.ledger,
            request.first,
            max_entries=request.max_entries,
            max_bytes=min(request.max_bytes, self._max_read),
        )
        return pack_entries(found)

    async def _fence(self, request: pb.FenceRequest) -> pb.FenceReply:
        found = await self._node.fence(request.ledger)
        return pb.FenceReply(
            lac=found.lac,
            last_entry=found.last_entry,
            certain=found.certain,
            tail=pack_entries(found.tail) if found.tail else b"",
        )

    async def _delete(self, request: pb.DeleteRequest) -> Message:
        await self._node.delete(request.ledger)
        return pb.DeleteReply()

    async def _list(self, request: pb.ListRequest) -> Message:
        ledgers = self._store.ledgers()
        first = bisect_right(ledgers, request.after) if request.HasField("after") else 0
        limit = min(request.limit or _LIST_LIMIT, _LIST_LIMIT)
        page = ledgers[first : first + limit]
        return pb.ListReply(ledgers=page, more=first + len(page) < len(ledgers))

    async def _stat(self, request: pb.StatRequest) -> Message:
        stat = self._store.stat(request.ledger)
        if stat is None:
            return pb.StatReply(known=False)
        return pb.StatReply(known=True, **asdict(stat))


async def abort(context: Context, error: SulinaError) -> Never:
    """End a call with an error."""
    code = code_of(error)
    await context.abort(
        status_of(code), str(error)[:MAX_MESSAGE], trailing_metadata=((CODE_KEY, str(code)),)
    )
