"""One connection to one broker: requests, answers, pings, and dispatch of what arrives.

A connection ends once, for one reason. Then unanswered requests have an unknown outcome, and each
of its producers and consumers is notified. It never reconnects: ``pool`` opens new ones.
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
from sulina.wire.limits import HEADER_SIZE, MAX_BODY
from sulina.wire.stream import CommandStream

LARGEST_COMMAND: Final = HEADER_SIZE + MAX_BODY + (64 << 10)
_UNANSWERED_PINGS: Final = 6
_REQUESTS: Final = 0xFFFF_FFFF
_AT_ONCE: Final = 128
"""Requests in flight. Brokers refuse many more than that, and refused requests must be retried; so
when a thousand producers lose their broker, they wait for their turn here instead."""

Answer = Incoming | SulinaError
_B = TypeVar("_B", bound=Body)


class ConnectionUser(Protocol):
    """A producer or consumer that uses a connection. Called on the event loop."""

    topic: str

    def received(self, incoming: Incoming) -> None: ...

    def writable_again(self) -> None: ...

    def lost(self, reason: SulinaError) -> None: ...


class Connection:
    """Created by :meth:`open`. ``producers`` and ``consumers`` are its users, by handle."""

    def __init__(
        self,
        address: Address,
        runtime: Runtime,
        options: ClientOptions,
        on_end: Callable[[Connection], None],
        on_silence: Callable[[Connection], None] | None = None,
    ) -> None:
        self.address = address
        self.producers: dict[int, ConnectionUser] = {}
        self.consumers: dict[int, ConnectionUser] = {}
        self.max_frame_bytes = MAX_BODY
        self.brokers: tuple[str, ...] = ()
        """URLs of other brokers, as announced by this one."""
        self.broker_id = ""
        """The id of the broker at the other end."""
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
        """Connect and authenticate, within the connect timeout.

        ``on_silence`` is called periodically while the broker leaves pings unanswered. Raises
        ``Unavailable`` if no broker answers and ``Refused`` if it rejects the client.
        """
        connection = cls(address, runtime, options, on_end, on_silence)
        seconds = options.connect_timeout
        try:
            await within(runtime.clock, seconds, connection._introduce())
        except TimeoutError:
            error = Unavailable(
                f"no answer from {address} within {seconds:g} s: is a broker running there?"
            )
            connection.end(error, politely=False)
            raise error from None
        except BaseException:
            abandoned = Unavailable(f"the connection to {address} was abandoned")
            connection.end(abandoned, politely=False)
            raise
        connection._watch = asyncio.create_task(connection._watch_over())
        return connection

    async def _introduce(self) -> None:
        address, token = self.address, self._options.token
        if not isinstance(token, str):
            given = token()
            token = given if isinstance(given, str) else await given
        await self._runtime.network.dial(
            self._stream,
            address.host,
            address.port,
            secure=address.secure,
            name=address.name,
        )
        hello = pb.Connect(
            protocol=PROTOCOL_VERSION,
            client=self._options.name,
            token=token,
            broker=address.broker,
            host=address.name or address.host,
        )
        try:
            _, body = await self.request(Command.CONNECT, hello, pb.Connected)
        except UnknownOutcome:
            if isinstance(self.ended, ProtocolError):
                raise self.ended from None
            raise Unavailable(
                f"{address} closed the connection immediately: is it a broker's binary port "
                "(6655; use sulina+tls:// if it requires TLS)?"
            ) from None
        self.max_frame_bytes = body.max_frame_bytes or MAX_BODY
        self.brokers = tuple(body.brokers)
        self.broker_id = body.broker_id

    # ---- sending ----

    @property
    def writable(self) -> bool:
        """Whether data may be sent now; if not, ``writable_again`` of its users is called later."""
        return self._stream.writable and self.ended is None

    def send(self, command: Command, body: Body, *data: Buffer) -> None:
        """Queue a command without an answer. Does nothing once the connection has ended."""
        if self.ended is None:
            self._spoke = True
            self._stream.send(command, 0, body, *data)

    def ask(self, command: Command, body: Body, answered: Callable[[Answer], None]) -> None:
        """Queue a command; ``answered`` is called once, with the answer or an error.

        Answers to commands of one topic arrive in the order of the commands. There is no timeout,
        but the end of the connection answers every pending command.
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
        """Send a request and wait for its answer, for ``seconds`` or the operation timeout.

        ``arrived`` is called as soon as the answer arrives, before any later command is processed;
        ``abandoned`` is called instead if the caller has stopped waiting by then. Raises the
        broker's error, ``UnknownOutcome`` when the connection is lost or time is up, and
        ``Unavailable`` if the connection was lost before.
        """
        future: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()

        def answered(answer: Answer) -> None:
            if isinstance(answer, SulinaError):
                if not future.done():
                    future.set_exception(answer)
                return
            if not isinstance(answer.body, expected):
                raise ProtocolError(f"{command.name} was answered by {answer.command.name}")
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
        await self._acquire_slot(seconds)
        try:
            self.ask(command, body, answered)
            left = end - self._runtime.clock.now()
            incoming = await within(self._runtime.clock, left, future)
        except TimeoutError:
            raise UnknownOutcome(
                f"{self.address} did not answer {command.name} within {seconds:g} s: "
                "it may or may not have happened; check before trying again"
            ) from None
        finally:
            self._room.release()
        return incoming, cast(_B, incoming.body)

    async def _acquire_slot(self, seconds: float) -> None:
        """Wait until another request may be sent."""
        if not self._room.locked():
            await self._room.acquire()
            return
        clock, room = self._runtime.clock, self._room
        try:
            await within(clock, seconds, room.acquire(), discard=lambda _: room.release())
        except TimeoutError:
            raise Unavailable(
                f"{self.address} did not answer {_AT_ONCE} requests within {seconds:g} s: try again"
            ) from None

    @property
    def silent(self) -> bool:
        """Whether nothing has arrived for a ping interval, although a ping was sent before."""
        silent = self._runtime.clock.now() - self._heard
        return self.ended is None and self._pings > 0 and silent >= self._options.ping_interval

    # ---- receiving (the stream's handler) ----

    def connected(self, stream: CommandStream) -> None:
        """Nothing to do: ``dial`` returns next."""

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

    def _pass_on(self, user: ConnectionUser | None, incoming: Incoming) -> None:
        # An unknown handle was closed while this was in flight.
        if user is not None:
            user.received(incoming)

    def writable_again(self) -> None:
        for user in list(self.producers.values()):
            user.writable_again()

    def broke_protocol(self, error: ProtocolError) -> None:
        self.end(ProtocolError(f"{self.address} does not speak the broker protocol: {error}"))

    def lost(self, reason: Exception | None) -> None:
        self._gone.set()
        detail = f" ({reason})" if reason is not None else ""
        self.end(Unavailable(f"the connection to {self.address} was lost{detail}"))

    # ---- the end ----

    def end(self, reason: SulinaError, *, politely: bool = True) -> None:
        """Close for ``reason`` and notify all users and pending requests. Further calls do nothing.

        With ``politely``, queued data is sent first; do not use it with a dead peer.
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
            answered(UnknownOutcome(f"{reason} before the broker answered"))
        users = [*self.producers.values(), *self.consumers.values()]
        self.producers.clear()
        self.consumers.clear()
        # For its users this is a lost connection, whatever ended it: a new one may work.
        lost = reason if isinstance(reason, Retriable) else Unavailable(str(reason))
        for user in users:
            user.lost(lost)
        self._on_end(self)

    async def closed(self) -> None:
        """Wait until the transport is closed as well, after :meth:`end`."""
        await self._gone.wait()
        if self._watch is not None:
            await asyncio.wait((self._watch,))

    async def _watch_over(self) -> None:
        """Ping when either side is idle; close when nothing has arrived for three intervals.

        It closes only after several pings, which are sent more often while none is answered, so
        that a program that blocks its event loop for a minute keeps its connections.
        """
        clock, interval = self._runtime.clock, self._options.ping_interval
        while True:
            self._spoke = False
            # While a ping is unanswered, look again sooner.
            await clock.sleep(interval / 3 if self._pings else interval)
            silent = clock.now() - self._heard
            if silent >= 3 * interval and self._pings >= _UNANSWERED_PINGS:
                reason = f"nothing has arrived from {self.address} for {silent:.0f} s"
                self.end(Unavailable(reason), politely=False)
                return
            if self.silent and self._on_silence is not None:
                self._on_silence(self)
            if silent >= interval or not self._spoke:
                self._pings += 1
                self.ask(Command.PING, pb.Ping(), lambda _: None)
