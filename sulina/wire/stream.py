"""Moves commands over a byte transport: an asyncio protocol that receives without extra copies.

A large command is received straight into the buffer that its frame lives in from then on. Writing
is bounded: when the peer does not read, ``writable`` turns false and this side stops reading the
peer's commands too, so answers can't pile up.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from google.protobuf.message import Message

from sulina.errors import ProtocolError
from sulina.runtime.seam import Buffer
from sulina.wire.commands import LENGTH_FIELD, PREFIX, Command, Incoming, pack, unpack

_CHUNK = 64 << 10
_WRITE_HIGH = 2 << 20
_WRITE_LOW = 512 << 10


class Handler(Protocol):
    """Who gets what arrives on a stream. Calls are made on the event loop and must not block."""

    def connected(self, stream: CommandStream) -> None:
        """The connection is there; called once, first."""
        ...

    def received(self, incoming: Incoming) -> None:
        """One command. ``ProtocolError`` from here ends the connection with that error."""
        ...

    def writable_again(self) -> None:
        """The peer has read enough; sending may go on."""
        ...

    def lost(self, reason: Exception | None) -> None:
        """The connection is gone; called once, last."""
        ...

    def broke_protocol(self, error: ProtocolError) -> None:
        """The peer sent what can't be understood; the stream closes after this returns."""
        ...


class CommandStream(asyncio.BufferedProtocol):
    """One connection. ``limit`` bounds a single command's bytes, ``control_limit`` those of its
    control body, which costs far more memory once it is parsed.

    ``trusting``: read on while own writes wait. One side of a connection must, or both could wait
    for each other for ever; it is the client, whose peer sends no more than it was asked for.
    """

    def __init__(
        self,
        handler: Handler,
        limit: int,
        *,
        control_limit: int = 1 << 20,
        trusting: bool = False,
    ) -> None:
        self._handler = handler
        self.limit = limit
        self._control_limit = control_limit
        self._trusting = trusting
        self._transport: asyncio.Transport | None = None
        self._chunk = bytearray(_CHUNK)
        self._view = memoryview(self._chunk)
        self._start = self._end = 0
        self._large: memoryview | None = None  # a command that does not fit into the chunk
        self._large_end = 0
        self._held: set[str] = set()
        self.writable = True
        self.open = False

    # ---- what the owner calls ----

    def send(self, command: Command, request: int, body: Message, *data: Buffer) -> None:
        """Queue one command. Never blocks; heed ``writable`` before sending data."""
        if not self._usable():
            return
        assert self._transport is not None
        head = pack(command, request, body, data)
        if data:
            self._transport.writelines([head, *data])
        else:
            self._transport.write(head)

    def hold(self, why: str) -> None:
        """Stop reading from the peer until ``release`` was called for every reason given."""
        if not self._held and self._usable():
            assert self._transport is not None
            self._transport.pause_reading()
        self._held.add(why)

    def is_held(self, why: str) -> bool:
        return why in self._held

    def release(self, why: str) -> None:
        held = bool(self._held)
        self._held.discard(why)
        if held and not self._held and self._usable():
            assert self._transport is not None
            self._transport.resume_reading()

    def _usable(self) -> bool:
        return self.open and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Send what is queued, then close. At once if the peer does not read."""
        if self._transport is not None and self.open:
            self.open = False
            if self.writable:
                self._transport.close()
            else:
                self._transport.abort()

    def abort(self) -> None:
        """Close without sending what is queued."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def peer(self) -> str:
        """The other side's address, for logs."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "unknown"

    # ---- what asyncio calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH, low=_WRITE_LOW)
        self.open = True
        self._handler.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        # A session and its stream hold each other until garbage is collected, which is seldom:
        # what weighs goes now.
        self._large = None
        self._view = memoryview(b"")
        self._chunk = bytearray()
        self._handler.lost(exc)

    def pause_writing(self) -> None:
        self.writable = False
        if not self._trusting:
            self.hold("writing")

    def resume_writing(self) -> None:
        self.writable = True
        self.release("writing")
        self._handler.writable_again()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None and self.open:
            return self._large[self._large_end :]
        if self._start == self._end or not self.open:
            self._start = self._end = 0
        elif self._start and len(self._chunk) - self._end < _CHUNK // 4:
            rest = self._end - self._start
            self._chunk[:rest] = self._chunk[self._start : self._end]
            self._start, self._end = 0, rest
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self.open:
            return  # TLS hands out what it still has after a close
        try:
            if self._large is None:
                self._end += nbytes
                self._take_commands()
            else:
                self._large_end += nbytes
                if self._large_end == len(self._large):
                    command, self._large = self._large, None
                    self._handler.received(unpack(command, self._control_limit))
        except ProtocolError as error:
            self._handler.broke_protocol(error)
            self.close()

    def _take_commands(self) -> None:
        while self.open and self._end - self._start >= PREFIX.size:
            length = LENGTH_FIELD + int.from_bytes(
                self._view[self._start : self._start + LENGTH_FIELD], "little"
            )
            if length < PREFIX.size or length > self.limit:
                raise ProtocolError(
                    f"a command of {length} bytes came, {PREFIX.size} to {self.limit} are allowed: "
                    "is this really a Sulina client?"
                )
            have = self._view[self._start : min(self._start + length, self._end)]
            if len(have) == length:
                self._start += length
                self._handler.received(unpack(memoryview(bytearray(have)), self._control_limit))
            elif length > _CHUNK // 2:
                # Too long to wait for in the chunk: the rest is received where it will stay.
                self._large = memoryview(bytearray(length))
                self._large[: len(have)] = have
                self._large_end = len(have)
                self._start = self._end = 0
                return
            else:
                return
