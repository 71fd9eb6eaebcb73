"""The client, which ``sulina.connect`` returns and which creates producers and consumers."""

from __future__ import annotations

import builtins
import json
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, overload

from sulina.client.address import parse_addresses
from sulina.client.arguments import ConsumerArguments, ProducerArguments, TableArguments
from sulina.client.kinds import consumer_type, producer_type, typed_consumer_type
from sulina.client.options import (
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    TokenSource,
    choice,
    default_queue_records,
)
from sulina.client.pool import Pool
from sulina.client.retry import retry
from sulina.client.session import AsyncResource, closed_error
from sulina.client.silent_brokers import SilentBrokerCheck
from sulina.client.tasks import run_all
from sulina.client.topics import TopicInfo, TopicLookup
from sulina.errors import Refused
from sulina.model import Delivery, FailurePolicy, Start, SubscriptionType
from sulina.names import TopicName, check_label
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_network import RealNetwork
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Runtime
from sulina.version import __version__
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from sulina.wire.compression import Compression
from sulina.wire.header import MAX_RECORDS

if TYPE_CHECKING:
    # Imported where they are used: programs that only administer need none, and they load slowly.
    from sulina.client.consumer import Consumer
    from sulina.client.producer import Producer
    from sulina.client.reader import ReadResult, StoredFrames
    from sulina.client.table import Table
    from sulina.client.typed import TypedConsumer, TypedProducer
    from sulina.operations.client import AdminClient

_T = TypeVar("_T")
_V = TypeVar("_V")

CLIENT_NAME: Final = f"sulina-python/{__version__}"
_LATEST: Final = Start.latest()


def connect(
    url: str = "sulina://127.0.0.1:6655",
    *,
    token: TokenSource = "",
    tls: ssl.SSLContext | str | os.PathLike[str] | None = None,
    name: str = CLIENT_NAME,
    connect_timeout: float = 10.0,
    operation_timeout: float = 30.0,
    reconnect_timeout: float = 300.0,
    ping_interval: float = 3.0,
    runtime: Runtime | None = None,
) -> Client:
    """Create a client for the brokers at ``url``; it connects when entered with ``async with``.

    ``url`` is ``sulina://host:port`` or ``sulina+tls://host:port``; separate several brokers by
    commas. ``tls`` is an SSL context, or a file with the certificates to trust. ``token``
    authenticates the client; a function, which may be asynchronous, is called for each connection,
    for tokens that expire: ``sulina.stored_login(url)`` is one, after ``sulina login``.
    ``name`` identifies the program to the brokers.

    The first connection fails with ``Unavailable`` after ``connect_timeout`` seconds at the latest.
    Later, lost connections are re-established in the background: single calls are retried for
    ``operation_timeout``, sends for the producer's ``send_timeout``, and consumers and idle
    producers reconnect for ``reconnect_timeout``. A connection counts as lost when nothing has
    arrived for three times ``ping_interval``.

    Raises ``Refused`` for an invalid URL or option.

    >>> async with sulina.connect("sulina://127.0.0.1:6655") as client:
    ...     print(await client.ping())
    """
    options = ClientOptions(
        name, token, connect_timeout, operation_timeout, reconnect_timeout, ping_interval
    )
    if runtime is None:
        runtime = Runtime(RealClock(), RealNetwork(tls), real_random())
    return Client(url, options, runtime)


class Client(AsyncResource):
    """Connections to a cluster. Created by ``sulina.connect``; use it in ``async with``.

    Closing the client closes its producers and consumers. A client belongs to one event loop; any
    number of tasks may use it.
    """

    def __init__(self, url: str, options: ClientOptions, runtime: Runtime) -> None:
        self._options = options
        self._runtime = runtime
        self._pool = Pool(parse_addresses(url), runtime, options)
        self._silent_brokers = SilentBrokerCheck(self._pool, runtime)
        self._topics = TopicLookup(self._pool)
        self._open: dict[Producer | Consumer | Table[Any], None] = {}
        self._closed = False

    # ---- life ----

    async def open(self) -> Self:
        """Connect to a broker. ``async with`` calls this.

        Tries each address once, for at most ``connect_timeout`` each. Raises ``Unavailable`` if no
        broker answers and ``Refused`` if a broker rejects the client.
        """
        self._check_open()
        try:
            await self._pool.any()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close all producers, consumers and tables, like their own ``close``, and the connections.

        Calling it again is safe. Raises the first error of a producer that was not yet raised by
        awaiting a ticket.
        """
        await self._close([each.close for each in self._open])

    async def _close(self, closing: Sequence[Callable[[], Awaitable[None]]]) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await run_all(closing)
        finally:
            await self._silent_brokers.close()
            await self._pool.close()

    async def abandon(self) -> None:
        """Close without waiting for the brokers: pending records fail. Raises nothing."""
        await self._close([each.abandon for each in self._open])

    # ---- producers, consumers and tables ----

    @overload
    def producer(
        self, topic: str, *, schema: None = None, **options: Unpack[ProducerArguments]
    ) -> Producer: ...

    @overload
    def producer(
        self,
        topic: str,
        *,
        schema: type[_V],
        subject: str | None = None,
        **options: Unpack[ProducerArguments],
    ) -> TypedProducer[_V]: ...

    def producer(
        self,
        topic: str,
        *,
        schema: type[Any] | None = None,
        subject: str | None = None,
        name: str | None = None,
        delivery: Delivery | str | None = None,
        exclusive: bool = False,
        create: bool = True,
        batch_bytes: int = 248 << 10,
        batch_records: int = 65_536,
        linger_ms: float = 1.0,
        max_pending_bytes: int = 32 << 20,
        send_timeout: float = 60.0,
        compression: str = "none",
        schema_id: int = 0,
        schema_version: int = 0,
    ) -> Producer | TypedProducer[Any]:
        """Create a producer for ``topic``; it connects when entered with ``async with``.

        The topic is created if it does not exist, unless ``create`` is false, with the guarantee
        ``delivery`` (reliable by default). ``name`` lets a program continue its sequence after a
        restart; only one producer may use a name at a time. With ``exclusive``, the broker refuses
        other producers on the topic.

        Records are packed into frames of up to ``batch_bytes`` and ``batch_records``; a frame of
        1,000 records or more takes half as many bytes. A record is sent at once while few frames
        are in flight, and otherwise waits up to ``linger_ms`` for others to share its frame. Sends
        block while ``max_pending_bytes`` are unacknowledged. Records that are not acknowledged
        within ``send_timeout`` seconds fail. ``compression`` is none, lz4 or zstd.

        With ``schema``, a pydantic model or a dataclass, the producer takes values of that class.
        The schema is registered as ``subject`` (``namespace.topic`` by default) and the topic is
        bound to it. ``schema_id`` and ``schema_version`` are for producers that encode payloads
        themselves.

        Raises ``Refused`` for invalid arguments, and ``Closed`` after :meth:`close`.
        """
        self._check_open()
        parsed = TopicName.parse(topic)
        if schema is not None and subject is None:
            subject = f"{parsed.namespace}.{parsed.local}"
        options = ProducerOptions(
            topic=str(parsed),
            name=self._label("producer", name),
            delivery=None if delivery is None else choice(Delivery, "delivery", delivery),
            exclusive=exclusive,
            create=create,
            batch_bytes=batch_bytes,
            batch_records=batch_records,
            linger=linger_ms / 1000,
            max_pending_bytes=max_pending_bytes,
            send_timeout=send_timeout,
            compression=choice(Compression, "compression", compression),
            schema_id=schema_id,
            schema_version=schema_version,
            subject=subject or "",
        )
        if schema is None:
            return self._producer(options)
        from sulina.client.typed import TypedProducer

        def make(schema_id: int, schema_version: int) -> Producer:
            named = replace(options, schema_id=schema_id, schema_version=schema_version)
            return self._producer(named)

        return TypedProducer(schema, options.subject, self.admin, make)

    def _producer(self, options: ProducerOptions) -> Producer:
        self._check_open()
        producer = producer_type()(
            options, self._options, self._topics, self._runtime, self._forget
        )
        self._open[producer] = None
        return producer

    @overload
    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        schema: None = None,
        **options: Unpack[ConsumerArguments],
    ) -> Consumer: ...

    @overload
    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        schema: builtins.type[_V],
        **options: Unpack[ConsumerArguments],
    ) -> TypedConsumer[_V]: ...

    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        schema: builtins.type[Any] | None = None,
        type: SubscriptionType | str = SubscriptionType.EXCLUSIVE,
        start: Start = _LATEST,
        name: str | None = None,
        create: bool = True,
        key_filters: Sequence[str] = (),
        failure_policy: FailurePolicy | None = None,
        queue_bytes: int = 8 << 20,
        queue_records: int | None = None,
    ) -> Consumer:
        """Create a consumer of ``subscription``; it connects when entered with ``async with``.

        A new subscription is created with this ``type`` and ``failure_policy``, at ``start``; an
        existing one continues from its position. The topic is created if it does not exist, unless
        ``create`` is false. ``name`` is the consumer's name within the subscription.
        ``key_filters`` are patterns: a KeyShared consumer receives only keys that match one.

        At most ``queue_bytes`` and ``queue_records`` (50,000 by default, 1,000 for Shared and
        KeyShared) are buffered in the client.

        With ``schema``, a pydantic model or a dataclass, messages have a ``value`` of that class.

        Raises ``Refused`` for invalid arguments, and ``Closed`` after :meth:`close`.
        """
        self._check_open()
        kind = choice(SubscriptionType, "the subscription type", type)
        arguments = (
            ConsumerOptions(
                topic=str(TopicName.parse(topic)),
                subscription=check_label("subscription", subscription),
                type=kind,
                start=start,
                name=self._label("consumer", name),
                create=create,
                key_filters=tuple(key_filters),
                failure_policy=failure_policy,
                queue_bytes=queue_bytes,
                queue_records=(
                    default_queue_records(kind) if queue_records is None else queue_records
                ),
            ),
            self._options,
            self._topics,
            self._runtime,
            self._forget,
        )
        consumer: Consumer
        if schema is None:
            consumer = consumer_type()(*arguments)
        else:
            consumer = typed_consumer_type().reading(schema, *arguments)
        self._open[consumer] = None
        return consumer

    @overload
    def table(
        self, topic: str, *, schema: None = None, **options: Unpack[TableArguments]
    ) -> Table[bytes]: ...

    @overload
    def table(
        self, topic: str, *, schema: builtins.type[_V], **options: Unpack[TableArguments]
    ) -> Table[_V]: ...

    def table(
        self,
        topic: str,
        *,
        schema: builtins.type[Any] | None = None,
        create: bool = True,
        wait: bool = True,
        max_bytes: int = 256 << 20,
        poll_seconds: float = 0.1,
    ) -> Table[Any]:
        """Create a dictionary of the newest value of each key of ``topic``.

        Entering it with ``async with`` reads the whole topic, unless ``wait`` is false; then it
        follows the topic. The topic is created if it does not exist, unless ``create`` is false.
        Keys and values may take ``max_bytes`` together, plus about 200 bytes for each key; beyond
        that the table stops with ``Overloaded``. At the end of the topic it asks for new records
        every ``poll_seconds``.

        With ``schema``, a pydantic model or a dataclass, values are of that class.

        Raises ``Refused`` for invalid arguments, and ``Closed`` after :meth:`close`.

        >>> async with client.table("/default/prices") as prices:
        ...     print(prices["EURUSD"])
        """
        self._check_open()
        from sulina.client.codecs import codec_of
        from sulina.client.table import Table, TableOptions

        options = TableOptions(str(TopicName.parse(topic)), create, wait, max_bytes, poll_seconds)
        codec = None if schema is None else codec_of(schema)
        table: Table[Any] = Table(
            options, codec, self._options, self._topics, self._runtime, self._forget
        )
        self._open[table] = None
        return table

    def _label(self, what: str, name: str | None) -> str:
        return self._runtime.unique_name(what) if name is None else check_label(what, name)

    def _forget(self, closed: Producer | Consumer | Table[Any]) -> None:
        self._open.pop(closed, None)

    # ---- single calls ----

    async def topic(self, name: str) -> TopicInfo:
        """Describe a topic. Waits at most ``operation_timeout``. Raises ``NotFound``."""
        self._check_open()
        return await self._try(lambda: self._topics.describe(str(TopicName.parse(name))))

    async def read(
        self,
        topic: str,
        start: Start,
        *,
        max_records: int = 1000,
        max_bytes: int = 8 << 20,
    ) -> ReadResult:
        """Read records from ``start`` on, without a subscription.

        Returns at most ``max_records`` and may return fewer: continue at ``next_offset`` until
        ``at_end``. Of a partitioned topic, pass the name of a partition. Waits at most
        ``operation_timeout``. Raises ``NotFound``, and ``Refused`` for a partitioned topic.

        >>> result = await client.read("/default/orders", Start.earliest())
        """
        self._check_open()
        name = str(TopicName.parse(topic))
        if max_records < 1 or max_bytes < 1:
            raise Refused("max_records and max_bytes must be at least 1")
        from sulina.client.reader import read_once

        return await self._try(lambda: read_once(self._topics, name, start, max_records, max_bytes))

    async def read_frames(
        self, topic: str, start: Start, *, max_bytes: int = 8 << 20
    ) -> StoredFrames:
        """Read frames from ``start`` on as they are stored, for programs that open whole columns.

        ``topic`` is a partition, or a topic that has none. Returns about ``max_bytes`` and may
        return less: continue at ``next_offset`` until ``at_end``. Waits at most
        ``operation_timeout``. Raises ``NotFound``.
        """
        self._check_open()
        name = str(TopicName.parse(topic))
        from sulina.client.reader import read_frames

        return await self._try(
            lambda: read_frames(self._topics, name, start, MAX_RECORDS, max_bytes)
        )

    def use_only_given_addresses(self) -> None:
        """Never turn to brokers that are not in the URL. Call it before opening."""
        self._pool.learns = False

    @cached_property
    def admin(self) -> AdminClient:
        """Administrative operations: ``await client.admin.topics.create("/default/orders")``.

        A call waits for the broker, at most for the operation timeout. It raises the broker's
        error, and ``UnknownOutcome`` if the connection is lost before the broker has answered.
        """
        from sulina.operations.client import AdminClient

        return AdminClient(self._run_operation)

    async def _run_operation(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run an operation on a broker: JSON in, JSON out."""
        self._check_open()
        connection = await self._try(self._pool.any)
        try:
            encoded = json.dumps(dict(arguments)).encode()
        except (TypeError, ValueError) as error:
            raise Refused(f"the arguments of {name} cannot be written as JSON: {error}") from None
        body = pb.Admin(method=name, arguments=encoded)
        _, answer = await connection.request(Command.ADMIN, body, pb.AdminResult)
        return json.loads(answer.result) if answer.result else {}

    async def ping(self) -> float:
        """Measure the round trip to a broker, in seconds."""
        self._check_open()
        connection = await self._try(self._pool.any)
        began = self._runtime.clock.now()
        await connection.request(Command.PING, pb.Ping(), pb.Pong)
        return self._runtime.clock.now() - began

    async def _try(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        return await retry(self._runtime, self._options.operation_timeout, attempt)

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error("client")
