"""Sends and receives commands: an asyncio protocol that receives without extra copies.

A large command is received directly into the buffer that its frame is kept in; the buffer grows
with the bytes that arrive, not with the length that the peer announces. Writing is bounded:
while the peer does not read, ``writable`` is false and the peer's commands are not read either, so
that answers do not accumulate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, cast

from google.protobuf.message import Message

from sulina.errors import ProtocolError
from sulina.runtime.seam import Buffer
from sulina.wire.commands import LENGTH_FIELD, PREFIX, Command, Incoming, pack, unpack

_CHUNK = 64 << 10
_FIRST_LARGE = 256 << 10
_GROWTH = 4
"""The buffer of a large command grows by this factor as its bytes arrive: a peer that announces a
large command and sends none of it costs little."""
_WRITE_HIGH = 2 << 20
_WRITE_LOW = 512 << 10


class Handler(Protocol):
    """Receives a stream's events. Called on the event loop; must not block."""

    def connected(self, stream: CommandStream) -> None:
        """The connection is open. Called once, before the others."""
        ...

    def received(self, incoming: Incoming) -> None:
        """One command has arrived. Raising ``ProtocolError`` closes the connection."""
        ...

    def writable_again(self) -> None:
        """The peer has caught up; sending may continue."""
        ...

    def lost(self, reason: Exception | None) -> None:
        """The connection is closed. Called once, after the others."""
        ...

    def broke_protocol(self, error: ProtocolError) -> None:
        """The peer sent something invalid; the stream closes after this returns."""
        ...


class CommandStream(asyncio.BufferedProtocol):
    """One connection. ``limit`` is the maximum size of a command in bytes, ``control_limit`` that
    of its control body, which takes far more memory once parsed.

    ``trusting`` keeps reading while its own writes wait. One side must, or both could wait for each
    other forever: it is the client, because brokers send only what was requested.
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
        self._chunk = bytearray()  # allocated when the first bytes arrive
        self._view = memoryview(self._chunk)
        self._start = self._end = 0
        self._large: memoryview | None = None  # a command that does not fit into the chunk
        self._large_end = 0
        self._large_length = 0
        self._held: set[str] = set()
        self.writable = True
        self.open = False

    # ---- called by the owner ----

    def send(self, command: Command, request: int, body: Message, *data: Buffer) -> None:
        """Queue one command. Never blocks; check ``writable`` before sending data."""
        if not self._usable():
            return
        assert self._transport is not None
        head = pack(command, request, body, data)
        if data:
            self._transport.writelines([head, *data])
        else:
            self._transport.write(head)

    def hold(self, why: str) -> None:
        """Stop reading from the peer until ``release`` is called for each reason."""
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
        """Close after sending the queued commands; immediately if the peer does not read."""
        if self._transport is not None and self.open:
            self.open = False
            if self.writable:
                self._transport.close()
            else:
                self._transport.abort()

    def abort(self) -> None:
        """Close immediately and discard the queued commands."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def descriptor(self) -> int:
        """The number of its file descriptor; -1 if it has none."""
        socket = self._transport.get_extra_info("socket") if self._transport else None
        return -1 if socket is None else int(socket.fileno())

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The other side's verified certificate; None or empty if it has none."""
        return self._transport.get_extra_info("peercert") if self._transport else None

    @property
    def address(self) -> str:
        """The other side's host, without its port; empty if it is unknown."""
        found = self._transport.get_extra_info("peername") if self._transport else None
        return str(found[0]) if isinstance(found, tuple) else ""

    @property
    def peer(self) -> str:
        """The other side's address, for logs."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "unknown"

    # ---- called by asyncio ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH, low=_WRITE_LOW)
        self.open = True
        self._handler.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        # A session and its stream refer to each other until the next garbage collection, which is
        # rare: free the large buffers now.
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
        if not self._chunk:
            self._chunk = bytearray(_CHUNK)
            self._view = memoryview(self._chunk)
        if self._start == self._end or not self.open:
            self._start = self._end = 0
        elif self._start and len(self._chunk) - self._end < _CHUNK // 4:
            rest = self._end - self._start
            self._chunk[:rest] = self._chunk[self._start : self._end]
            self._start, self._end = 0, rest
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self.open:
            return  # TLS may deliver buffered data after a close
        try:
            if self._large is None:
                self._end += nbytes
                self._take_commands()
            else:
                self._large_end += nbytes
                if self._large_end == self._large_length:
                    command, self._large = self._large, None
                    self._handler.received(unpack(command, self._control_limit))
                elif self._large_end == len(self._large):
                    grown = memoryview(
                        bytearray(min(self._large_length, _GROWTH * self._large_end))
                    )
                    grown[: self._large_end] = self._large
                    self._large = grown
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
                    f"received a command of {length} bytes, allowed are {PREFIX.size} to "
                    f"{self.limit}: is the peer really a Sulina client?"
                )
            have = self._view[self._start : min(self._start + length, self._end)]
            if len(have) == length:
                self._start += length
                self._handler.received(unpack(memoryview(bytearray(have)), self._control_limit))
            elif length > _CHUNK // 2:
                # Too large for the chunk: receive the rest directly into its own buffer.
                self._large = memoryview(bytearray(min(length, _FIRST_LARGE)))
                self._large_length = length
                self._large[: len(have)] = have
                self._large_end = len(have)
                self._start = self._end = 0
                return
            else:
                return
