"""Refuses gRPC callers without a valid token, or whose connection is over a quota, before any byte
of their message is read.

Few methods are open to everybody: health checks, and the exchange of a key for a token. Their calls
are bounded in number and time, and a new one replaces the oldest that has not sent its message yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc
from google.protobuf.message import Message

from broker_containers.doors.grpc_shared.call import Call
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.statuses import FOR_TOOLS, Statuses, status_of
from broker_containers.security.access import ANYONE
from broker_containers.security.errors import Denied, Unauthenticated
from broker_containers.security.throttle import TokenThrottle
from sulina.errors import Overloaded, SulinaError

_MESSAGE_SECONDS: Final = 5.0
"""How long the message of an open call may take to arrive."""

_MESSAGE_BYTES: Final = 64 << 10
"""The largest message of an open call."""


@dataclass(frozen=True, slots=True)
class OpenMethod:
    """A method that needs no token."""

    waiting: int
    """Maximum calls whose message has not arrived."""
    running: int
    """Maximum calls in progress after that; further ones are refused."""


class CallGate:
    """Methods are named by path: ``/package.Service/Method``. Callers that are refused may
    call ``open_methods``, and get the fixed replies in ``answers``."""

    def __init__(
        self,
        callers: Callers,
        throttle: TokenThrottle,
        open_methods: Mapping[str, OpenMethod],
        answers: Mapping[str, Message] | None = None,
        statuses: Statuses = FOR_TOOLS,
    ) -> None:
        """``statuses`` are those of the door, for callers over a quota."""
        self._callers = callers
        self._throttle = throttle
        self._open = {path: OpenCalls(each) for path, each in open_methods.items()}
        self._answers = answers or {}
        self._statuses = statuses
        self._refusing: set[asyncio.Task[None]] = set()

    def allows(self, call: Call) -> bool:
        """Whether a call goes on; if not, it is answered, or will be. Never waits."""
        path = call.head.path
        opened = self._open.get(path)
        if not self._callers.on and opened is not None:
            opened.wait_for_message(call)
            return True
        try:
            access = self._callers.access_of(call) if self._callers.on else ANYONE
            call.connection.show_identity(call, access.limited_as)
        except SulinaError as error:
            if opened is not None:
                opened.wait_for_message(call)
                return True
            fixed = self._answers.get(path)
            if fixed is not None:
                call.reply_now(fixed)
            else:
                self._refuse(call, error)
            return False
        return True

    def knows(self, call: Call) -> bool:
        """Whether a caller has a valid token."""
        try:
            self._callers.access_of(call)
        except SulinaError:
            return False
        return True

    def is_open(self, path: str) -> bool:
        """Whether everybody may call a method."""
        return path in self._open

    def _refuse(self, call: Call, error: SulinaError) -> None:
        if isinstance(error, Unauthenticated | Denied):
            self._callers.refused(call, call.head.token, error)
        if call.head.token and isinstance(error, Unauthenticated):
            refusing = asyncio.create_task(self._hold_back(call, error))
            self._refusing.add(refusing)
            refusing.add_done_callback(self._refusing.discard)
            return
        call.connection.refuse(call, status_of(error, self._statuses), str(error))

    async def _hold_back(self, call: Call, error: SulinaError) -> None:
        """Refuse an invalid token, later if its address presents many of them."""
        try:
            await self._throttle.refused(call.address)
        except Overloaded as overloaded:
            error = overloaded
        call.connection.refuse(call, status_of(error, FOR_TOOLS), str(error))

    async def close(self) -> None:
        """Forget the refusals that are held back."""
        for refusing in self._refusing:
            refusing.cancel()
        if self._refusing:
            await asyncio.wait(self._refusing)


class OpenCalls:
    """The calls of one open method."""

    def __init__(self, limits: OpenMethod) -> None:
        self._limits = limits
        self._waiting: dict[Call, asyncio.TimerHandle] = {}
        self._running = 0

    def wait_for_message(self, call: Call) -> None:
        """Count a call, which may take the place of the oldest without a message."""
        if len(self._waiting) >= self._limits.waiting:
            self._give_up(next(iter(self._waiting)))
        call.limits = self
        call.most = _MESSAGE_BYTES
        loop = asyncio.get_running_loop()
        self._waiting[call] = loop.call_later(_MESSAGE_SECONDS, self._give_up, call)

    def _give_up(self, call: Call) -> None:
        call.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "no message arrived in time: try again")
        self._stop_waiting(call)

    def _stop_waiting(self, call: Call) -> bool:
        timer = self._waiting.pop(call, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def begin(self, call: Call) -> bool:
        """The message of a call has arrived; false if the call is refused."""
        self._stop_waiting(call)
        if self._running >= self._limits.running:
            why = "too many such calls are in progress: try again later"
            call.limits = None
            call.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
            return False
        self._running += 1
        return True

    def end(self, call: Call) -> None:
        """A call holds nothing any more."""
        if not self._stop_waiting(call):
            self._running -= 1
