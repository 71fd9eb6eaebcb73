"""One connection of a Sulina client, on the broker's side.

Data commands (publish, flow, ack, nack) are handled immediately, in order. Requests that may wait
run as tasks of the session, limited in number. A client that violates the protocol loses its
connection; others are not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

from google.protobuf.message import Message

from broker_containers.doors.binary import translate
from broker_containers.doors.binary.attachments import Attachments, BinaryProducer, Unchecked
from broker_containers.doors.binary.requests import Request, Requests
from broker_containers.doors.binary.tunnel import Tunnel
from broker_containers.doors.services import Services
from broker_containers.doors.unidentified import Connection
from broker_containers.quotas.quotas import Held, Live
from broker_containers.quotas.rates import Direction
from broker_containers.security.access import UNIDENTIFIED
from broker_containers.security.certificate import ClientCertificate, read_certificate
from broker_containers.security.errors import Unauthenticated
from sulina.errors import Overloaded, ProtocolError, Refused, SulinaError, UnknownOutcome
from sulina.model import Delivery
from sulina.runtime import stages
from sulina.runtime.seam import Buffer
from sulina.runtime.stages import Stage
from sulina.version import __version__
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PROTOCOL_VERSION, Command, Incoming, error_body
from sulina.wire.header import FrameHeader, check_frame, read_due
from sulina.wire.stream import CommandStream

_log = logging.getLogger(__name__)
_ENVELOPE = 64 << 10
"""Maximum bytes of a command besides its frame."""
_MOST_REASON = 1000
"""Characters kept of a consumer's reason for rejecting records."""
_MOST_URLS = 16
"""Maximum number of other brokers sent to a client."""
_STORAGE = "storage"
"""Reason for not reading from a connection: too much waits to become durable."""
_REFUSED = "refused"
"""Reason for not reading from a connection: its token is invalid, and it will be closed."""
_SCHEMAS = "schemas"
"""Reason for not reading from a connection: too many frames wait for a schema check."""
_RATE = "rate"
"""Reason for not reading from a connection: it published faster than a quota allows."""
_CLOCKS_APART_US = 60_000_000
"""Tolerance for a producer's clock that is ahead of the broker's."""
_MOST_UNCHECKED = 4 << 20
_MOST_TRACE = 64
"""Bytes kept of a producer's own times."""


class BinarySession:
    """The broker's side of one connection."""

    def __init__(
        self,
        services: Services,
        opened: Callable[[BinarySession], str],
        identified: Callable[[BinarySession], None],
        closed: Callable[[BinarySession], None],
    ) -> None:
        """``opened`` is called once the connection is established, TLS included, and returns why it
        is refused, or an empty string; ``identified`` once the client has sent a valid token;
        ``closed`` once the connection is lost."""
        self._broker = broker = services.broker
        self._authority = services.authority
        self._audit = services.audit
        self._counts = services.requests
        self._token = ""
        self._access = UNIDENTIFIED
        self._throttle = services.throttle
        self._opened = opened
        self._identified = identified
        self._closed = closed
        self.stream = CommandStream(self, _ENVELOPE)
        self._attachments = Attachments(self.stream, broker.settings.max_peers)
        self._requests = Requests(
            services, self._attachments, lambda: self._access, lambda: self._direct
        )
        self._direct = False
        self._vouched: ClientCertificate | None = None
        self._greeted = False
        self._held: Held | None = None
        self.unidentified: Connection | None = None
        """Set while the limits of connections without a token apply."""
        self._seen = broker.clock.now()
        self._refused = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._others = services.other_brokers
        self._tunnel: Tunnel | None = None
        self._unchecked_bytes = 0
        self._resume_at = 0.0

    def close(self) -> None:
        """Close the connection after sending what is queued; then ``lost`` is called."""
        self.stream.close()

    def abort(self) -> None:
        """Close the connection immediately; then ``lost`` is called."""
        self.stream.abort()

    def silent_since(self, moment: float) -> bool:
        """Whether the client has sent nothing since ``moment``, although the broker was reading."""
        held = self.stream.is_held(_STORAGE) or self.stream.is_held(_RATE)
        return self._seen < moment and not held

    def recheck(self) -> None:
        """Apply changed rights: detach producers and consumers, or close the connection."""
        if not self._greeted:
            return
        try:
            access = self._authority.access(*self._identity(self._token))
        except Refused:
            self.close()  # the client reconnects, with another token or to get the reason
            return
        if not access.same_as(self._access):
            self._attachments.keep_to(access)
        self._access = access

    def _identity(self, token: str) -> tuple[str, ClientCertificate | None]:
        """By what the client is identified: its token, or its certificate."""
        own = read_certificate(self.stream.certificate)
        return self._authority.identity(token, own, self._vouched)

    # ---- called by the stream ----

    def connected(self, stream: CommandStream) -> None:
        self._refused = self._opened(self)

    def writable_again(self) -> None:
        self._attachments.writable_again()
        if self._tunnel is not None:
            self._tunnel.client_writable()

    def broke_protocol(self, error: ProtocolError) -> None:
        _log.info("%s: %s", self.stream.peer, error)
        self.stream.send(Command.ERROR, 0, error_body(error))

    def lost(self, reason: Exception | None) -> None:
        if self._tunnel is not None:
            self._tunnel.close()
        for task in self._tasks:
            task.cancel()
        for producer in self._attachments.producers.values():
            producer.detach()
        for consumer in self._attachments.consumers.values():
            consumer.leave()
        if self._held is not None:
            self._held.release()
        self._closed(self)

    def received(self, incoming: Incoming) -> None:
        command, body = incoming.command, incoming.body
        self._seen = self._broker.clock.now()
        if self._tunnel is not None:
            self._tunnel.forward(incoming)
            return
        if self.stream.is_held(_REFUSED):
            return
        if not self._greeted and command is not Command.CONNECT:
            raise ProtocolError("the first command on a connection must be CONNECT")
        match command:
            case Command.PUBLISH:
                self._publish(cast(pb.Publish, body), incoming.data)
            case Command.FLOW:
                self._flow(cast(pb.Flow, body))
            case Command.ACK:
                self._answering(incoming.request, self._ack, cast(pb.Ack, body))
            case Command.NACK:
                self._answering(incoming.request, self._nack, cast(pb.Nack, body))
            case Command.PING:
                self.stream.send(Command.PONG, incoming.request, pb.Pong())
            case Command.PONG:
                pass
            case Command.CONNECT:
                self._connect(incoming.request, cast(pb.Connect, body))
            case _:
                self._start_request(incoming)

    def _connect(self, request: int, body: pb.Connect) -> None:
        if self._refused:
            self.stream.send(Command.ERROR, request, error_body(Overloaded(self._refused)))
            self.close()
            return
        if body.protocol != PROTOCOL_VERSION:
            raise ProtocolError(
                f"the client speaks protocol {body.protocol}, this broker {PROTOCOL_VERSION}: "
                "use a client of the broker's version"
            )
        if body.principal:
            self._vouched = ClientCertificate(body.principal, body.until_us)
        try:
            token, certificate = self._identity(body.token)
            self._access = self._audit.sign_in(
                self._authority,
                token,
                "binary",
                self.stream.peer,
                certificate=certificate,
                connection=True,
            )
        except SulinaError as error:
            self.stream.hold(_REFUSED)
            self._run(self._refuse(request, error, presented=bool(body.token)))
            return
        self._identified(self)
        self._token = body.token
        self._greeted = True
        principal = self._access.limited_as
        try:
            self._held = self._broker.quotas.hold(Live.CONNECTIONS, "", principal)
        except Overloaded as error:
            self.stream.send(Command.ERROR, request, error_body(error))
            self.close()
            return
        settings = self._broker.settings
        self.stream.limit = settings.max_frame_bytes + _ENVELOPE
        if body.broker not in ("", settings.broker_id):
            self._forward_to(request, body)
            return
        self._direct = self._others is not None and self._others.is_direct(body.host)
        answer = pb.Connected(
            protocol=PROTOCOL_VERSION,
            server=f"sulina/{__version__}",
            broker_id=settings.broker_id,
            max_frame_bytes=settings.max_frame_bytes,
            brokers=(
                () if self._others is None else self._others.urls(direct=self._direct)[:_MOST_URLS]
            ),
        )
        self.stream.send(Command.CONNECTED, request, answer)

    async def _refuse(self, request: int, error: SulinaError, *, presented: bool) -> None:
        """Close the connection with a reason, later if its address presents many bad tokens."""
        if isinstance(error, Unauthenticated):
            refusal: SulinaError = self._authority.with_sign_in(error)
            try:
                if presented:
                    await self._throttle.refused(self.stream.address)
            except Overloaded as overloaded:
                refusal = overloaded
            error = refusal
        self.stream.send(Command.ERROR, request, error_body(error))
        self.close()

    def _forward_to(self, request: int, body: pb.Connect) -> None:
        if self._others is None:
            raise ProtocolError(
                f"this broker does not know {body.broker!r}: look the topic up again"
            )
        self._tunnel = Tunnel(self.stream, self.stream.limit)
        clock = self._broker.clock
        hello = pb.Connect()
        hello.CopyFrom(body)
        hello.principal, hello.until_us = "", 0
        token, certificate = self._identity(body.token)
        if not token and certificate is not None:
            # The other broker can't see the certificate: this one says whose it is.
            hello.token = self._authority.own_token()
            hello.principal, hello.until_us = certificate.principal, certificate.until_us
        self._run(self._tunnel.open(self._others, clock, body.broker, request, hello))

    # ---- data commands ----

    def _publish(self, body: pb.Publish, data: memoryview) -> None:
        attached = self._attachments.producers.get(body.producer)
        if attached is None or attached.producer is None:
            self._attachments.check_given(body.producer)
            return  # closed by the broker, which has notified the client
        held = attached.producer.held
        if body.trace:
            _trace(attached, body, data)
        try:
            header = check_frame(data)
            if header.is_delayed:
                now_us, most = self._broker.clock.wall_us(), self._broker.settings.max_delay_seconds
                _check_delay(data, header, attached.topic.delivery, now_us, most)
        except Refused as error:
            attached.producer.finish(attached.producer.start(body.number), error)
            return
        if (
            attached.schema_check.passes(header.schema_id, header.schema_version)
            and not attached.unchecked
        ):
            attached.topic.publish(attached.producer, body.number, data, header)
        else:
            self._check_schema(attached, Unchecked(body.number, data, header))
        quotas = self._broker.quotas
        if Direction.PUBLISH in quotas.limited and held is not None:
            delay = quotas.delay(Direction.PUBLISH, held.where, header.count, header.size)
            if delay:
                self._slow_down(delay)
        if self._broker.ledgers.overloaded and not self.stream.is_held(_STORAGE):
            self.stream.hold(_STORAGE)
            self._run(self._wait_for_storage())

    def _check_schema(self, attached: BinaryProducer, frame: Unchecked) -> None:
        """Publish a frame after checking its schema, which may have to read metadata."""
        attached.unchecked.append(frame)
        self._unchecked_bytes += len(frame.data)
        if self._unchecked_bytes > _MOST_UNCHECKED:
            self.stream.hold(_SCHEMAS)
        if len(attached.unchecked) == 1:
            self._run(self._check_schemas(attached))

    async def _check_schemas(self, attached: BinaryProducer) -> None:
        while attached.unchecked:
            frame = attached.unchecked[0]
            problem: SulinaError | None = None
            try:
                await attached.schema_check.check_frame(frame.header, frame.data)
            except SulinaError as error:
                problem = error
            except Exception:
                _log.exception("checking a frame of %s failed", self.stream.peer)
                problem = UnknownOutcome("unexpected error on the broker: see its log")
            attached.unchecked.popleft()
            self._unchecked_bytes -= len(frame.data)
            if self._unchecked_bytes <= _MOST_UNCHECKED:
                self.stream.release(_SCHEMAS)
            producer = attached.producer
            if producer is None:
                continue  # detached meanwhile, which the client was notified of
            if problem is None:
                attached.topic.publish(producer, frame.number, frame.data, frame.header)
            else:
                producer.finish(producer.start(frame.number), problem)

    def _slow_down(self, seconds: float) -> None:
        """Read nothing more for this long."""
        self._resume_at = max(self._resume_at, self._broker.clock.now() + seconds)
        if not self.stream.is_held(_RATE):
            self.stream.hold(_RATE)
            self._run(self._wait_for_rate())

    async def _wait_for_rate(self) -> None:
        clock = self._broker.clock
        while (left := self._resume_at - clock.now()) > 0:
            await clock.sleep(left)
        self.stream.release(_RATE)

    async def _wait_for_storage(self) -> None:
        await self._broker.ledgers.wait_writable()
        self.stream.release(_STORAGE)

    def _flow(self, body: pb.Flow) -> None:
        attached = self._attachments.consumers.get(body.consumer)
        if (
            attached is not None
            and attached.subscription is not None
            and attached.member is not None
        ):
            attached.subscription.grant(attached.member, body.records, body.bytes)
        else:
            self._attachments.check_given(body.consumer)

    def _ack(self, body: pb.Ack) -> None:
        _, subscription, member = self._attachments.consumer(body.consumer)
        for first, last, mask in translate.all_chosen(body.selections):
            if body.cumulative:
                subscription.ack_up_to(member, last)
            else:
                subscription.ack(member, first, last, mask)

    def _nack(self, body: pb.Nack) -> None:
        _, subscription, member = self._attachments.consumer(body.consumer)
        for first, last, mask in translate.all_chosen(body.selections):
            delay = body.delay_ms
            reason = body.reason[:_MOST_REASON] or "not handled by the consumer"
            subscription.nack(member, first, last, mask, delay, reason)

    def _answering(self, request: int, handle: Callable[[Any], None], body: Message) -> None:
        try:
            handle(body)
        except ProtocolError:
            raise
        except SulinaError as error:
            if request:  # otherwise no reply is expected: a detached consumer may still acknowledge
                self.stream.send(Command.ERROR, request, error_body(error))
            return
        if request:
            self.stream.send(Command.DONE, request, pb.Done())

    # ---- requests ----

    def _start_request(self, incoming: Incoming) -> None:
        handle = self._requests.find(incoming.command)
        if handle is None:
            raise ProtocolError(f"a {incoming.command.name} command can't be sent to a broker")
        if len(self._tasks) >= self._broker.settings.max_requests:
            error = Overloaded("too many concurrent requests on this connection: wait for replies")
            self.stream.send(Command.ERROR, incoming.request, error_body(error))
            return
        self._run(self._request(incoming, handle))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _request(self, incoming: Incoming, handle: Request) -> None:
        request = incoming.request
        ok = False
        try:
            answer = await handle(incoming.body)
            ok = True
        except SulinaError as error:
            self.stream.send(Command.ERROR, request, error_body(error))
            return
        except Exception:
            _log.exception("a request from %s failed", self.stream.peer)
            failure = UnknownOutcome("unexpected error on the broker: see its log")
            self.stream.send(Command.ERROR, request, error_body(failure))
            return
        finally:
            self._counts.add("binary", incoming.command.name.lower(), ok=ok)
        self.stream.send(answer.command, request, answer.body, *answer.data)
        if answer.then is not None:
            answer.then()


def _trace(attached: BinaryProducer, body: pb.Publish, frame: memoryview) -> None:
    trace = stages.begin(frame, body.trace[:_MOST_TRACE])
    if trace is not None:
        trace.sink = attached, body.number
        stages.mark(frame, Stage.ARRIVED)


def _check_delay(
    frame: Buffer, header: FrameHeader, delivery: Delivery, wall_us: int, most_seconds: int
) -> None:
    """Raise ``Refused`` if a frame asks for a delivery time that its topic cannot keep."""
    due_us = read_due(frame, header)
    if due_us is None:
        return
    if delivery is not Delivery.RELIABLE:
        raise Refused(
            "a non_reliable topic stores nothing and cannot delay messages: publish without a "
            "delay, or to a reliable topic"
        )
    if due_us > wall_us + most_seconds * 1_000_000 + _CLOCKS_APART_US:
        days = (due_us - wall_us) / 86_400e6
        raise Refused(
            f"the delivery time is {days:,.1f} days ahead by the broker's clock, but at most "
            f"{most_seconds / 86_400:,.4g} are allowed: choose an earlier one"
        )
