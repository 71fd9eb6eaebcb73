"""One connection to one broker: requests and their answers, pings, and who gets what arrives.

A connection ends once, for one reason, and says so to everyone who depends on it: requests that
were not answered have an unknown outcome, and each producer and consumer on it is told that it
is lost. It never reconnects; ``pool`` makes new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

from google.protobuf.message import Message as Body

from sulina.client.address import Address
from sulina.client.options import ClientOptions
from sulina.errors import ProtocolError, Retriable, SulinaError, Unavailable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.seam import Buffer, Runtime
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PROTOCOL_VERSION, Command, Incoming, error_from
from sulina.wire.header import HEADER_SIZE, MAX_BODY
from sulina.wire.stream import CommandStream

LARGEST_COMMAND: Final = HEADER_SIZE + MAX_BODY + (64 << 10)
_UNANSWERED_PINGS: Final = 6
_REQUESTS: Final = 0xFFFF_FFFF
_AT_ONCE: Final = 128
"""Requests under way. Brokers refuse what is far more, and who is refused has to come again: when a
thousand producers lost their broker, each waits for its turn here instead."""

Answer = Incoming | SulinaError
_B = TypeVar("_B", bound=Body)


class Peer(Protocol):
    """A producer or consumer of this connection. Calls are made on the event loop."""

    topic: str

    def received(self, incoming: Incoming) -> None: ...

    def writable_again(self) -> None: ...

    def lost(self, reason: SulinaError) -> None: ...


class Connection:
    """Made by :meth:`open`. ``producers`` and ``consumers`` are the peers, by their handles."""

    def __init__(
        self,
        address: Address,
        runtime: Runtime,
        options: ClientOptions,
        on_end: Callable[[Connection], None],
        on_silence: Callable[[Connection], None] | None = None,
    ) -> None:
        self.address = address
        self.producers: dict[int, Peer] = {}
        self.consumers: dict[int, Peer] = {}
        self.max_frame_bytes = MAX_BODY
        self.brokers: tuple[str, ...] = ()
        """URLs of other brokers, as this one told them."""
        self.broker_id = ""
        """Who answers here."""
        self.ended: SulinaError | None = None
        self._runtime = runtime
        self._options = options
        self._on_end = on_end
        self._on_silence = on_silence
        self._stream = CommandStream(
            self, LARGEST_COMMAND, control_limit=LARGEST_COMMAND, trusting=True
        )
        self._asked: dict[int, Callable[[Answer], None]] = {}
        self._last_request = 0
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._heard = runtime.clock.now()
        self._pings = 0
        self._spoke = False
        self._watch: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    @classmethod
    async def open(
        cls,
        address: Address,
        runtime: Runtime,
        options: ClientOptions,
        on_end: Callable[[Connection], None],
        on_silence: Callable[[Connection], None] | None = None,
    ) -> Connection:
        """Dial and introduce ourselves, within the connect timeout.

        ``on_silence`` is called now and then while the broker leaves pings unanswered.
        Raises ``Unavailable`` if no broker answers and ``Refused`` if it does not want us.
        """
        connection = cls(address, runtime, options, on_end, on_silence)
        seconds = options.connect_timeout
        try:
            await within(runtime.clock, seconds, connection._introduce())
        except TimeoutError:
            error = Unavailable(f"no answer from {address} in {seconds:g} s: is a broker there?")
            connection.end(error, politely=False)
            raise error from None
        except BaseException:
            given_up = Unavailable(f"the connection to {address} was given up")
            connection.end(given_up, politely=False)
            raise
        connection._watch = asyncio.create_task(connection._watch_over())
        return connection

    async def _introduce(self) -> None:
        address = self.address
        await self._runtime.network.dial(
            self._stream, address.host, address.port, secure=address.secure
        )
        hello = pb.Connect(
            protocol=PROTOCOL_VERSION,
            client=self._options.name,
            token=token if isinstance(token := self._options.token, str) else token(),
            broker=address.broker,
        )
        try:
            _, body = await self.request(Command.CONNECT, hello, pb.Connected)
        except UnknownOutcome:
            if isinstance(self.ended, ProtocolError):
                raise self.ended from None
            raise Unavailable(
                f"{address} closed the connection at once: is it a broker's binary port "
                "(6655, with sulina+tls:// if it wants TLS)?"
            ) from None
        self.max_frame_bytes = body.max_frame_bytes or MAX_BODY
        self.brokers = tuple(body.brokers)
        self.broker_id = body.broker_id

    # ---- sending ----

    @property
    def writable(self) -> bool:
        """Whether data may be sent now; ``Peer.writable_again`` tells when it may again."""
        return self._stream.writable and self.ended is None

    def send(self, command: Command, body: Body, *data: Buffer) -> None:
        """Queue a command that has no answer. Does nothing once the connection has ended."""
        if self.ended is None:
            self._spoke = True
            self._stream.send(command, 0, body, *data)

    def ask(self, command: Command, body: Body, answered: Callable[[Answer], None]) -> None:
        """Queue a command; ``answered`` is called once, with the answer or an error.

        Answers to commands of one topic come in the order of the commands. Without a deadline:
        the end of the connection is one, at the latest.
        """
        if self.ended is not None:
            answered(Unavailable(str(self.ended)))
            return
        request = self._last_request % _REQUESTS + 1
        while request in self._asked:
            request = request % _REQUESTS + 1
        self._last_request = request
        self._asked[request] = answered
        self._spoke = True
        self._stream.send(command, request, body)

    async def request(
        self,
        command: Command,
        body: Body,
        expected: type[_B],
        *,
        seconds: float | None = None,
        arrived: Callable[[_B], None] | None = None,
        abandoned: Callable[[_B], None] | None = None,
    ) -> tuple[Incoming, _B]:
        """Ask and wait for the answer, for ``seconds`` or else for the operation timeout.

        ``arrived`` is called in the moment the answer arrives, before any later command is
        looked at; ``abandoned`` instead of it if by then nobody waits any more. Raises the
        broker's error, ``UnknownOutcome`` when the connection is lost or time is up, and
        ``Unavailable`` when it was lost before.
        """
        future: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()

        def answered(answer: Answer) -> None:
            if isinstance(answer, SulinaError):
                if not future.done():
                    future.set_exception(answer)
                return
            if not isinstance(answer.body, expected):
                raise ProtocolError(f"{command.name} was answered with {answer.command.name}")
            if future.done():
                if abandoned is not None:
                    abandoned(answer.body)
                return
            if arrived is not None:
                arrived(answer.body)
            future.set_result(answer)

        if seconds is None:
            seconds = self._options.operation_timeout
        end = self._runtime.clock.now() + seconds
        await self._turn(seconds)
        try:
            self.ask(command, body, answered)
            left = end - self._runtime.clock.now()
            incoming = await within(self._runtime.clock, left, future)
        except TimeoutError:
            raise UnknownOutcome(
                f"{self.address} did not answer {command.name} in {seconds:g} s: "
                "it may or may not have been done"
            ) from None
        finally:
            self._room.release()
        return incoming, cast(_B, incoming.body)

    async def _turn(self, seconds: float) -> None:
        """Wait until one request more may be made."""
        if not self._room.locked():
            await self._room.acquire()
            return
        clock, room = self._runtime.clock, self._room
        try:
            await within(clock, seconds, room.acquire(), discard=lambda _: room.release())
        except TimeoutError:
            raise Unavailable(
                f"{self.address} did not answer {_AT_ONCE} requests in {seconds:g} s"
            ) from None

    @property
    def silent(self) -> bool:
        """Whether nothing came for a ping's interval, although a ping was sent before."""
        silent = self._runtime.clock.now() - self._heard
        return self.ended is None and self._pings > 0 and silent >= self._options.ping_interval

    # ---- receiving (the stream's handler) ----

    def connected(self, stream: CommandStream) -> None:
        """The stream is ready; nothing to do before the dialler returns."""

    def received(self, incoming: Incoming) -> None:
        self._heard = self._runtime.clock.now()
        self._pings = 0
        command, body = incoming.command, incoming.body
        if command is Command.PING:
            self._stream.send(Command.PONG, incoming.request, pb.Pong())
        elif incoming.request:
            answered = self._asked.pop(incoming.request, None)
            if answered is not None:
                answered(error_from(body) if isinstance(body, pb.Error) else incoming)
        elif isinstance(body, pb.Published | pb.PublishFailed | pb.ProducerClosed):
            self._pass_on(self.producers.get(body.producer), incoming)
        elif isinstance(body, pb.Deliver | pb.ConsumerClosed | pb.ActiveChanged):
            self._pass_on(self.consumers.get(body.consumer), incoming)
        elif isinstance(body, pb.Error):
            self.end(error_from(body))

    def _pass_on(self, peer: Peer | None, incoming: Incoming) -> None:
        # A handle that is not known here was closed, and this was on its way already.
        if peer is not None:
            peer.received(incoming)

    def writable_again(self) -> None:
        for peer in list(self.producers.values()):
            peer.writable_again()

    def broke_protocol(self, error: ProtocolError) -> None:
        self.end(ProtocolError(f"{self.address} does not speak the protocol of a broker: {error}"))

    def lost(self, reason: Exception | None) -> None:
        self._gone.set()
        detail = f" ({reason})" if reason is not None else ""
        self.end(Unavailable(f"the connection to {self.address} was lost{detail}"))

    # ---- the end ----

    def end(self, reason: SulinaError, *, politely: bool = True) -> None:
        """Close for ``reason``, and tell everyone. Further calls do nothing.

        Politely: what is queued is sent first, which must not be tried with a dead peer.
        """
        if self.ended is not None:
            return
        self.ended = reason
        if politely:
            self._stream.close()
        else:
            self._stream.abort()
        if self._watch is not None:
            self._watch.cancel()
        asked, self._asked = self._asked, {}
        for answered in asked.values():
            answered(UnknownOutcome(f"{reason}, with an answer still to come"))
        peers = [*self.producers.values(), *self.consumers.values()]
        self.producers.clear()
        self.consumers.clear()
        # To a peer this is only a lost connection, whatever ended it: a new one may do better.
        lost = reason if isinstance(reason, Retriable) else Unavailable(str(reason))
        for peer in peers:
            peer.lost(lost)
        self._on_end(self)

    async def closed(self) -> None:
        """Wait until the transport is gone too, after :meth:`end`."""
        await self._gone.wait()
        if self._watch is not None:
            await asyncio.wait((self._watch,))

    async def _watch_over(self) -> None:
        """Ping when either side is quiet; give up when nothing came for three intervals.

        And only after several pings, which are sent more often while none is answered: a program
        that blocks its loop for a minute must find its connections alive afterwards.
        """
        clock, interval = self._runtime.clock, self._options.ping_interval
        while True:
            self._spoke = False
            # While a ping is unanswered doubts shall come soon.
            await clock.sleep(interval / 3 if self._pings else interval)
            silent = clock.now() - self._heard
            if silent >= 3 * interval and self._pings >= _UNANSWERED_PINGS:
                reason = f"nothing came from {self.address} for {silent:.0f} s: it seems gone"
                self.end(Unavailable(reason), politely=False)
                return
            if self.silent and self._on_silence is not None:
                self._on_silence(self)
            if silent >= interval or not self._spoke:
                self._pings += 1
                self.ask(Command.PING, pb.Ping(), lambda _: None)
