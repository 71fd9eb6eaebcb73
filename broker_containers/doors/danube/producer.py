"""A producer of a stock client: attached to its topic, whose publisher sends its messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker_containers.doors.danube.messages import DanubeRecord
from broker_containers.doors.danube.topic_publisher import TopicPublisher
from broker_containers.doors.danube.tracing import published
from broker_containers.quotas.rates import Subject
from broker_containers.schemas.checks import TopicSchemaCheck
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from storage_grpc.outcomes import Done, future_of
from sulina.errors import NotFound, Refused, Retriable, SulinaError, TooLarge

PublisherOf = Callable[[Topic, tuple[Subject, ...]], TopicPublisher]


class DanubeProducer:
    """The sink of one producer, for all clients that use its name. Call :meth:`attach` first."""

    def __init__(self, topic: Topic, check: TopicSchemaCheck, now: float) -> None:
        """``check`` checks messages against the topic's schema."""
        self.topic = topic
        self.name = ""
        self._check = check
        self.seen = now
        """Time of the last message or health check."""
        self.gone: SulinaError | None = None
        """Why it is detached; None while it is attached."""
        self.producer: TopicProducer | None = None
        self._publisher: TopicPublisher | None = None
        self._in_progress = 0

    async def attach(
        self, name: str, publisher_of: PublisherOf, *, exclusive: bool, principal: str
    ) -> None:
        """Attach to the topic. Raises the same errors as ``Topic.attach``."""
        self.name = name
        producer = self.producer = await self.topic.attach(
            name, self, exclusive=exclusive, principal=principal
        )
        where = () if producer.held is None else producer.held.where
        self._publisher = publisher_of(self.topic, where)
        self._publisher.join(self)

    def detach(self) -> None:
        """Detach: the client has gone silent."""
        self._end(Retriable("the producer sent nothing for too long: create it again"))

    @property
    def replaced(self) -> bool:
        """Whether a client of another door took the name over, which then keeps it."""
        return isinstance(self.gone, Refused) and not isinstance(self.gone, NotFound)

    @property
    def idle(self) -> bool:
        """Whether no message is waiting or in progress."""
        return not self._in_progress

    async def send(self, record: DanubeRecord) -> None:
        """Publish one message; durable when this returns, if the topic is reliable.

        Raises ``Refused`` if it violates a policy of the topic. It is published even if the caller
        is cancelled.
        """
        await self._check.check(*record.schema, record.payload)
        await future_of(partial(self.send_now, record))

    def takes(self, schema_id: int, schema_version: int) -> bool:
        """Whether :meth:`send_now` may be used for messages of a schema."""
        return self._check.passes(schema_id, schema_version)

    def send_now(self, record: DanubeRecord, done: Done) -> None:
        """Publish a message whose schema need not be checked; ``done`` gets the outcome.

        Saves a future and a coroutine per message. Raises the errors that are known without
        waiting; ``done`` is called later.
        """
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        limit = self.topic.policy.max_message_size
        if limit and len(record.payload) > limit:
            size = len(record.payload)
            raise TooLarge(f"a message of {size} bytes is over the topic's limit of {limit}")
        assert self._publisher is not None
        if record.attributes:
            done = published(str(self.topic.name), record.attributes, done)
        self._in_progress += 1
        self._publisher.add(record, done, self)

    # ---- what the publisher calls ----

    def settled(self, now: float) -> None:
        self._in_progress -= 1
        self.seen = now

    def failed(self, error: SulinaError) -> None:
        self._end(error)  # the next message attaches it again

    # ---- what the topic calls ----

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        if self._publisher is not None:
            self._publisher.published(first_number, base_offsets)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        if self._publisher is not None:
            self._publisher.publish_failed(number, error)

    def closed(self, reason: SulinaError) -> None:
        # The topic still reports the outcome of the frame in progress.
        self.producer = None
        self._end(reason)

    def _end(self, reason: SulinaError) -> None:
        self.gone = self.gone or reason
        producer, self.producer = self.producer, None
        if producer is not None:
            self.topic.detach(producer)
        if self._publisher is not None:
            self._publisher.leave(self, self.gone)
