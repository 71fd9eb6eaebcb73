"""The pipelined stream of appends to one node.

An append to an idle stream is sent immediately. While two messages are unanswered, appends collect
for the next one, until it is answered or they are worth a message: a message costs both sides as
much CPU as many appends, and the node syncs one group after the other anyway. So messages grow with
the load and with the time of a sync. The node answers in order.
When the stream is lost, all unanswered appends have an unknown outcome. The next append opens a new
stream, after a pause that grows while the node does not answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import grpc

from storage_grpc.entries import check_ids
from storage_grpc.remote.link import AppendCall
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.codes import error_of, error_of_call
from storage_grpc.remote.wire.layout import (
    ENTRY_OVERHEAD,
    RECOVERY,
    TRACED,
    AppendOutcome,
    DamagedMessage,
    entry_head,
    pack,
    unpack_outcomes,
)
from storage_grpc.storage_pb2 import OK
from sulina.errors import Overloaded, SulinaError, TooLarge, Unavailable, UnknownOutcome
from sulina.runtime import stages
from sulina.runtime.seam import Buffer, Clock
from sulina.runtime.tasks import stop_tasks

_MESSAGE_BYTES: Final = 1 << 20
"""The limit of one message, unless a single entry is larger."""
_UNANSWERED: Final = 2
"""Messages that are sent however small they are: one that the node syncs, and one to sync next."""
_WORTH_BYTES: Final = 256 << 10
"""So many bytes are sent at once: large messages cost little for each byte, and more of them keep
the connection busy where the network takes longer than the disk."""


@dataclass(slots=True, eq=False)
class _Append:
    ledger: int
    entry: int
    lac: int
    flags: int
    payload: Buffer
    size: int
    done: asyncio.Future[None]
    ends_message: bool = False


class Appends:
    """Appends to one node. Every future gets exactly one outcome, even after ``close``."""

    def __init__(
        self,
        who: str,
        open_call: Callable[[], AppendCall],
        max_entry_bytes: int,
        settings: RemoteSettings,
        clock: Clock,
        *,
        traces: bool = False,
    ) -> None:
        """``traces``: the node knows the flag of traced entries."""
        self._who = who
        self._traces = traces
        self._open_call = open_call
        self._max_entry_bytes = max_entry_bytes
        self._settings = settings
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Append] = deque()
        self._sent: deque[_Append] = deque()
        self._wake = asyncio.Event()
        self._stream: asyncio.Task[None] | None = None
        self._pause = 0.0
        self._not_before = clock.now()
        self._closed = False
        self._waiting_bytes = 0
        self._unanswered = 0
        """Messages of which not all entries are answered."""
        self.pending_bytes = 0
        """Payload bytes of unanswered entries."""

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool
    ) -> asyncio.Future[None]:
        """See ``Node.append``."""
        done: asyncio.Future[None] = self._loop.create_future()
        size = memoryview(payload).nbytes
        try:
            check_ids(ledger, entry, lac)
            self._check_room(size)
        except SulinaError as error:
            done.set_exception(error)
            return done
        flags = RECOVERY if recovery else 0
        self._waiting.append(_Append(ledger, entry, lac, flags, payload, size, done))
        self.pending_bytes += size
        self._waiting_bytes += size
        self._wake_sender()
        if self._stream is None:
            self._stream = asyncio.create_task(self._run(), name=f"appends-{self._who}")
        return done

    def _check_room(self, size: int) -> None:
        if self._closed:
            raise Unavailable(f"the connection to {self._who} was closed")
        if size > self._max_entry_bytes:
            raise TooLarge(
                f"an entry of {size} bytes is larger than {self._who}'s limit of "
                f"{self._max_entry_bytes}"
            )
        if self.pending_bytes + size > self._settings.max_pending_bytes and self.pending_bytes:
            raise Overloaded(
                f"{self.pending_bytes} bytes sent to {self._who} are unanswered and the limit is "
                f"{self._settings.max_pending_bytes}: wait for answers"
            )
        if self._stream is None and self._clock.now() < self._not_before:
            raise Unavailable(f"{self._who} did not answer and is retried later: use another node")

    async def close(self) -> None:
        """End the stream; unanswered appends have an unknown outcome."""
        self._closed = True
        await stop_tasks(self._stream)
        # A task that was cancelled before its first step has not done this.
        self._fail_all("the connection was closed")

    # ---- one stream ----

    async def _run(self) -> None:
        reason = "it ended the stream of appends"
        answered = False
        call: AppendCall | None = None
        sending: asyncio.Task[None] | None = None
        try:
            call = self._open_call()
            sending = asyncio.create_task(self._send(call), name=f"appends-send-{self._who}")
            # Otherwise the loop below would wait forever after a failure to send.
            sending.add_done_callback(partial(_cancel, call))
            async for message in call:
                for outcome in unpack_outcomes(message):
                    self._settle(outcome)
                answered = True
        except grpc.RpcError as error:
            reason = str(error_of_call(error, self._who))
        except (DamagedMessage, grpc.aio.UsageError) as error:
            reason = str(error)
        except asyncio.CancelledError:
            # ``close`` cancelled this task, or the call was cancelled: its channel was closed, or
            # sending failed.
            reason = _failure(sending) or "the stream of appends was closed"
        finally:
            if call is not None:
                call.cancel()
            await stop_tasks(sending)
            self._ended(answered, reason)

    async def _send(self, call: AppendCall) -> None:
        while True:
            while not self._may_send():
                self._wake.clear()
                await self._wake.wait()
            await call.write(self._next_message())

    def _may_send(self) -> bool:
        return bool(self._waiting) and (
            self._unanswered < _UNANSWERED or self._waiting_bytes >= _WORTH_BYTES
        )

    def _wake_sender(self) -> None:
        if self._may_send():
            self._wake.set()

    def _next_message(self) -> bytes:
        """All waiting appends, up to the limit."""
        waiting = self._waiting
        parts: list[Buffer] = []
        size = 0
        while waiting:
            append = waiting[0]
            length = ENTRY_OVERHEAD + append.size
            if parts and size + length > _MESSAGE_BYTES:
                break
            size += length
            flags = append.flags
            if stages.traces and self._traces and stages.sent_to(append.payload, self._who):
                flags |= TRACED
            parts.append(entry_head(append.ledger, append.entry, append.lac, flags, append.payload))
            parts.append(append.payload)
            self._waiting_bytes -= append.size
            self._sent.append(waiting.popleft())
        self._sent[-1].ends_message = True
        self._unanswered += 1
        return pack(parts, size)

    def _settle(self, outcome: AppendOutcome) -> None:
        if not self._sent:
            raise DamagedMessage("it answered an append that was not sent")
        append = self._sent[0]
        if (append.ledger, append.entry) != (outcome.ledger, outcome.entry):
            raise DamagedMessage("it answered appends in another order than they were sent")
        self._sent.popleft()
        self.pending_bytes -= append.size
        if append.ends_message:
            self._unanswered -= 1
            self._wake_sender()
        if append.done.done():
            return  # cancelled by the caller
        if outcome.code == OK:
            if outcome.message and stages.traces:
                stages.answered_by(append.payload, self._who, outcome.message)
            append.done.set_result(None)
        else:
            append.done.set_exception(error_of(outcome.code, outcome.message, self._who))

    def _ended(self, answered: bool, reason: str) -> None:
        settings = self._settings
        self._stream = None
        self._pause = (
            0.0
            if answered
            else min(max(2 * self._pause, settings.first_backoff), settings.last_backoff)
        )
        self._not_before = self._clock.now() + self._pause
        self._fail_all(reason)

    def _fail_all(self, reason: str) -> None:
        lost = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._waiting_bytes = self._unanswered = 0
        for append in lost:
            self.pending_bytes -= append.size
            if not append.done.done():
                append.done.set_exception(
                    UnknownOutcome(f"{self._who} did not confirm an append: {reason}")
                )


def _cancel(call: AppendCall, _: asyncio.Task[None]) -> None:
    call.cancel()


def _failure(sending: asyncio.Task[None] | None) -> str:
    """The error that ended sending; empty if there is none."""
    if sending is None or not sending.done() or sending.cancelled():
        return ""
    return str(sending.exception())
