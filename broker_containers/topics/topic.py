"""A topic that this broker owns: accepts frames from producers, feeds its subscriptions."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from broker_containers.quotas.quotas import Live, QuotaExceeded, Quotas
from broker_containers.subscriptions.consumers import AttachedConsumer, ConsumerSink
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.dedup import Verdict
from broker_containers.topic_log.log import Log
from broker_containers.topic_log.tail_cache import CachedFrame, TopicTail
from broker_containers.topics.histogram import PublishLatency
from broker_containers.topics.producers import REPEATED, ProducerSink, PublishOutcome, TopicProducer
from sulina.errors import (
    Fenced,
    NotFound,
    Overloaded,
    Refused,
    Retriable,
    SulinaError,
    TooLarge,
)
from sulina.metadata.keys.policy import Policy
from sulina.metrics.histogram import LATENCY_MS, Histogram
from sulina.model import Delivery, Start
from sulina.names import TopicName
from sulina.wire.decode import Frame
from sulina.wire.encode import SEVERAL_PRODUCERS
from sulina.wire.header import HAS_PRODUCERS, FrameHeader


@dataclass(slots=True)
class TopicCounters:
    """What was published since the topic was opened."""

    frames_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    raw_bytes: int = 0
    """Bytes of the records before compression, with keys and attributes."""
    repeats: int = 0


class Topic:
    """One topic, or one partition, with its producers and subscriptions."""

    def __init__(
        self,
        name: TopicName,
        delivery: Delivery,
        policy: Policy,
        log: Log,
        tail: TopicTail,
        latency: PublishLatency | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.name = name
        self.delivery = delivery
        self._policy = policy
        self.log = log
        self.tail = tail
        self.counters = TopicCounters()
        self.failed: Counter[type[SulinaError]] = Counter()
        """Records that were not published since the topic was opened, by the kind of error."""
        self.latency = Histogram(LATENCY_MS)
        """Milliseconds from receiving a frame until it is durable."""
        self._latency = latency
        self.quotas = quotas
        self.full = ""
        """Why nothing can be published: its backlog is larger than its policy allows."""
        self.producers: dict[str, TopicProducer] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self._exclusive: TopicProducer | None = None
        self._under_way: dict[tuple[int, int], _Publishing] = {}
        self._waking = False
        self._repairing = asyncio.Lock()

    @property
    def policy(self) -> Policy:
        """The limits in force. With another limit of the backlog, producers are refused only once
        that is found exceeded."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        before, self._policy = self._policy, policy
        if (policy.backlog_bytes, policy.backlog_drop_oldest) != (
            before.backlog_bytes,
            before.backlog_drop_oldest,
        ):
            self.full = ""

    # ---- producers ----

    async def attach(
        self, name: str, sink: ProducerSink, *, exclusive: bool, principal: str | None = None
    ) -> TopicProducer:
        """Attach a producer; one of the same name replaces the previous one.

        Waits for the log to be repaired if an append failed. Raises ``Refused`` if the topic has
        an exclusive producer, ``Overloaded`` at a limit of producers. It counts in the quotas of
        ``principal``, if that is not empty; None is for the broker's own producers, which count in
        none.
        """
        await self._usable_log()
        before = self.producers.get(name)
        others = len(self.producers) - (before is not None)
        if self._exclusive is not None and self._exclusive.name != name:
            raise Refused(f"{self.name} has an exclusive producer, {self._exclusive.name!r}")
        if exclusive and others:
            raise Refused(f"{self.name} has other producers: an exclusive producer must be alone")
        limit = self.policy.max_producers_per_topic
        if limit and others >= limit:
            raise Overloaded(f"{self.name} has {others} producers, its policy allows {limit}")
        held = None
        if self.quotas is not None and principal is not None:
            instead = None if before is None else before.held
            held = self.quotas.hold(Live.PRODUCERS, self.name.namespace, principal, instead)
        if before is not None:
            before.sink.closed(Refused(f"another producer named {name!r} took over"))
            _release(before)
        producer = TopicProducer(name, sink, held)
        self.producers[name] = producer
        self._exclusive = producer if exclusive else None
        return producer

    async def _usable_log(self) -> None:
        if self.log.usable:
            return
        async with self._repairing:
            if not self.log.usable:
                await self.log.repair()
                self._wake_all()  # records that were stored but not confirmed are visible now

    def detach(self, producer: TopicProducer) -> None:
        """Detach a producer. What it sent stays."""
        _release(producer)
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]
        if self._exclusive is producer:
            self._exclusive = None

    # ---- publishing ----

    def publish(
        self, producer: TopicProducer, number: int, frame: memoryview, header: FrameHeader
    ) -> None:
        """Accept a frame whose checksum was verified. The producer's sink gets the outcome."""
        slot = producer.start(number)
        if producer.broken is not None:
            producer.finish(slot, producer.broken)
            return
        problem = self._problem(producer, frame, header)
        if problem is not None:
            self.failed[type(problem)] += header.count
            producer.finish(slot, problem)
            return
        verdict = Verdict.NEW
        if self.delivery is Delivery.RELIABLE:
            verdict = self.log.dedup.judge(header)
        if verdict is Verdict.NEW:
            began = 0.0 if self._latency is None else self._latency.begin()
            publishing = _Publishing(self, producer, slot, header, began)
            self._under_way[header.producer_id, header.last_sequence] = publishing
            self.log.append(frame, header, publishing.appended)
            return
        self.counters.repeats += verdict is not Verdict.OVERLAPS
        if verdict is Verdict.STORED:
            producer.finish(slot, REPEATED)
        else:
            first = self._under_way.get((header.producer_id, header.last_sequence))
            if verdict is Verdict.OVERLAPS or first is None:
                producer.finish(slot, _overlap(header))
            else:
                first.repeats = first.repeats or []
                first.repeats.append((producer, slot))

    def _problem(
        self, producer: TopicProducer, frame: memoryview, header: FrameHeader
    ) -> SulinaError | None:
        several = bool(header.flags & HAS_PRODUCERS)
        if (
            header.is_control
            or header.producer_id != producer.id
            or several is not (producer.name == SEVERAL_PRODUCERS)
        ):
            return Refused(f"the frame was not sent by producer {producer.name!r}")
        if self.quotas is not None and self.name.namespace in self.quotas.full:
            return QuotaExceeded(self.quotas.full[self.name.namespace])
        if self.full:
            return QuotaExceeded(self.full)
        limit = self.policy.max_message_size
        # Frames are decoded only if a record in them could exceed the limit.
        if limit and header.raw_length > limit:
            try:
                largest = max(map(len, Frame(frame).payloads))
            except Refused as error:
                return error
            if largest > limit:
                return TooLarge(
                    f"a message of {largest} bytes is over the topic's limit of {limit}"
                )
        return None

    def _stored(self, publishing: _Publishing, frame: CachedFrame) -> None:
        self.tail.add(frame)
        counters, header = self.counters, frame.header
        counters.frames_in += 1
        counters.records_in += header.count
        counters.bytes_in += header.size
        counters.raw_bytes += header.raw_length
        if self._latency is not None:
            self._latency.end(publishing.began, self.latency, frame)
        if len(self.subscriptions) == 1:
            self._wake_all()  # after this frame's producer: see TopicProducer.finish
        elif self.subscriptions and not self._waking:
            # Once per turn, as there may be many of them.
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._waking = False
        for subscription in self.subscriptions.values():
            subscription.wake()

    # ---- positions ----

    async def resolve(self, start: Start) -> int:
        """The offset at which ``start`` begins, limited to stored records."""
        match start.kind:
            case "latest":
                return self.log.end
            case "earliest":
                return self.log.start
            case "time":
                return await self.log.offset_at(start.value)
            case _:
                return min(max(start.value, self.log.start), self.log.end)

    def subscription(self, name: str) -> Subscription:
        """Raises ``NotFound``."""
        found = self.subscriptions.get(name)
        if found is None:
            raise NotFound(f"{self.name} has no subscription {name!r}")
        return found

    def join(
        self,
        subscription: Subscription,
        name: str,
        sink: ConsumerSink,
        key_filters: tuple[str, ...],
        principal: str,
    ) -> AttachedConsumer:
        """Attach a consumer, which counts in the quotas of ``principal`` unless that is empty.

        One of the same name replaces the previous one. Raises as ``Subscription.join``, and
        ``Overloaded`` at a limit of consumers.
        """
        before = next((each for each in subscription.consumers if each.name == name), None)
        limit = self.policy.max_consumers_per_topic
        if limit and before is None and (present := self.consumer_count) >= limit:
            raise Overloaded(f"{self.name} has {present} consumers, its policy's limit")
        limit = self.policy.max_consumers_per_subscription
        if self.quotas is None:
            return subscription.join(name, sink, key_filters, limit)
        instead = None if before is None else before.held
        held = self.quotas.hold(Live.CONSUMERS, self.name.namespace, principal, instead)
        try:
            return subscription.join(name, sink, key_filters, limit, held)
        except BaseException:
            held.release()
            raise

    @property
    def consumer_count(self) -> int:
        """Consumers of all subscriptions."""
        return sum(len(each.consumers) for each in self.subscriptions.values())

    # ---- ending ----

    async def close(self, reason: SulinaError) -> None:
        """Disconnect everybody; accepted publishes are finished first."""
        for producer in list(self.producers.values()):
            producer.sink.closed(reason)
            _release(producer)
        self.producers.clear()
        for subscription in list(self.subscriptions.values()):
            await subscription.close(reason)
        await self.log.close()
        self.tail.clear()


def _release(producer: TopicProducer) -> None:
    if producer.held is not None:
        producer.held.release()


def _overlap(header: FrameHeader) -> Refused:
    return Refused(
        f"records {header.first_sequence} to {header.last_sequence} were partly stored before: "
        "a frame must be sent again unchanged"
    )


@dataclass(slots=True, eq=False)
class _Publishing:
    """A frame that is being appended."""

    topic: Topic
    producer: TopicProducer
    slot: PublishOutcome
    header: FrameHeader
    began: float
    repeats: list[tuple[TopicProducer, PublishOutcome]] | None = None
    """The same frame, sent again before its outcome was known."""

    def appended(self, outcome: CachedFrame | SulinaError) -> None:
        topic, header = self.topic, self.header
        key = header.producer_id, header.last_sequence
        if topic._under_way.get(key) is self:
            del topic._under_way[key]
        if isinstance(outcome, SulinaError):
            # After a fence the producer looks up the new owner.
            error = Retriable(str(outcome)) if isinstance(outcome, Fenced) else outcome
            topic.failed[type(error)] += header.count
            self.producer.finish(self.slot, error)
            for producer, slot in self.repeats or ():
                producer.finish(slot, error)
        else:
            self.producer.finish(self.slot, outcome.base)
            for producer, slot in self.repeats or ():
                producer.finish(slot, REPEATED)
            topic._stored(self, outcome)
