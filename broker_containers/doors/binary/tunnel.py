"""Forwards a connection to another broker, for clients that reach all brokers by one address.

Behind a load balancer a client names the broker it wants in CONNECT; the broker that receives the
connection forwards every command in both directions. When one side does not read, the other is not
read from. Pings are forwarded too, so each end notices the loss of the other.
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
"""Reason for not reading from a connection: the other side of the tunnel does not read."""


class Tunnel:
    """Connects one client's connection to another broker; handles the broker's stream."""

    def __init__(self, client: CommandStream, limit: int) -> None:
        self._client = client
        self._broker = CommandStream(self, limit)
        self._waiting: list[Incoming] | None = []
        """Received before the broker is connected; one command, as clients wait for its reply."""

    async def open(
        self, others: OtherBrokers, clock: Clock, broker: str, request: int, hello: pb.Connect
    ) -> None:
        """Connect to the broker and send the client's CONNECT; errors go to the client."""
        try:
            await within(clock, _DIAL_SECONDS, others.dial(broker, self._broker))
        except (SulinaError, TimeoutError) as error:
            failure = Unavailable(
                f"this broker can't reach {broker} ({error}): look the topic up again"
            )
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
        """Forward a command of the client."""
        if self._waiting is not None:
            if self._waiting:
                raise ProtocolError("received commands before CONNECTED was sent: wait for it")
            self._waiting.append(incoming)
            return
        self._copy(incoming, self._client, self._broker)

    def client_writable(self) -> None:
        """The client is reading again."""
        self._broker.release(_OTHER_SIDE)

    def close(self) -> None:
        """The client has disconnected."""
        self._broker.abort()

    # ---- called by the broker's stream ----

    def connected(self, stream: CommandStream) -> None: ...

    def received(self, incoming: Incoming) -> None:
        self._copy(incoming, self._broker, self._client)

    def writable_again(self) -> None:
        self._client.release(_OTHER_SIDE)

    def lost(self, reason: Exception | None) -> None:
        self._client.close()

    def broke_protocol(self, error: ProtocolError) -> None:
        self._client.close()

    @staticmethod
    def _copy(incoming: Incoming, source: CommandStream, target: CommandStream) -> None:
        data = (incoming.data,) if incoming.data else ()
        target.send(incoming.command, incoming.request, incoming.body, *data)
        if not target.writable:
            source.hold(_OTHER_SIDE)
