"""Passes a connection on to another broker: for clients that reach all brokers by one address.

Behind a load balancer a client says with CONNECT which broker it wants; whoever gets the connection
passes every command on, whole, in both directions. When one side does not read, the other is not
read from. Pings go through as well, so each end notices the loss of the other.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker_containers.doors.services import OtherBrokers
from sulina.errors import ProtocolError, SulinaError, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, Incoming, error_body
from sulina.wire.stream import CommandStream

_DIAL_SECONDS: Final = 5.0
_OTHER_SIDE: Final = "the other side"
"""Why a connection is not read: the broker or client behind it does not read."""


class Tunnel:
    """The way from one client's connection to another broker; handler of the broker's side."""

    def __init__(self, client: CommandStream, limit: int) -> None:
        self._client = client
        self._broker = CommandStream(self, limit)
        self._waiting: list[Incoming] | None = []
        """What came before the other side was there; a client waits for CONNECTED, so little."""

    async def open(
        self, others: OtherBrokers, clock: Clock, broker: str, request: int, hello: pb.Connect
    ) -> None:
        """Connect and introduce the client; its end hears what becomes of it."""
        try:
            await within(clock, _DIAL_SECONDS, others.dial(broker, self._broker))
        except (SulinaError, TimeoutError) as error:
            failure = Unavailable(f"{broker} can't be reached from here ({error}): look up again")
            self._client.send(Command.ERROR, request, error_body(failure))
            self._client.close()
            return
        except asyncio.CancelledError:
            self.close()
            raise
        self._broker.send(Command.CONNECT, request, hello)
        waiting, self._waiting = self._waiting or [], None
        for incoming in waiting:
            self.forward(incoming)

    def forward(self, incoming: Incoming) -> None:
        """A command of the client."""
        if self._waiting is not None:
            if self._waiting:
                raise ProtocolError("commands came before CONNECTED was answered")
            self._waiting.append(incoming)
            return
        self._pass_on(incoming, self._client, self._broker)

    def client_writable(self) -> None:
        """The client reads again."""
        self._broker.release(_OTHER_SIDE)

    def close(self) -> None:
        """The client is gone."""
        self._broker.abort()

    # ---- what the broker's stream calls ----

    def connected(self, stream: CommandStream) -> None: ...

    def received(self, incoming: Incoming) -> None:
        self._pass_on(incoming, self._broker, self._client)

    def writable_again(self) -> None:
        self._client.release(_OTHER_SIDE)

    def lost(self, reason: Exception | None) -> None:
        self._client.close()

    def broke_protocol(self, error: ProtocolError) -> None:
        self._client.close()

    @staticmethod
    def _pass_on(incoming: Incoming, source: CommandStream, target: CommandStream) -> None:
        data = (incoming.data,) if incoming.data else ()
        target.send(incoming.command, incoming.request, incoming.body, *data)
        if not target.writable:
            source.hold(_OTHER_SIDE)
