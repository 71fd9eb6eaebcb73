"""Producers and consumers that a test runs while it does harm, and the model that judges them.

They belong to one client and reconnect by themselves. Consumers forget some records on purpose,
give some back, and acknowledge in all the ways there are.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import sulina
from sulina import (
    AlreadyExists,
    Batch,
    Client,
    Consumer,
    FailurePolicy,
    Producer,
    Retriable,
    Start,
    SubscriptionType,
    Ticket,
    UnknownOutcome,
)
from tests.faults.model import Model, Received, Sender

PARTITIONS = 2

# Nothing comes again because of time: only because it was given back, or a connection was lost.
_POLICY = FailurePolicy(
    max_redelivery_count=1_000_000,
    ack_timeout_ms=0,
    base_redelivery_delay_ms=20,
    max_redelivery_delay_ms=100,
)
_MOST_OUTSTANDING = 2000
_MOST_PATIENCE = 600.0
_PEERS = 11
"""Producers and consumers of a load."""


class Workload:
    """Made by :func:`workload`. The load runs until :meth:`settle`."""

    def __init__(self, client: Client, rng: random.Random, suffix: str) -> None:
        self.client = client
        self._plain = f"/default/plain{suffix}"
        self._parted = f"/default/parted{suffix}"
        self.model = Model()
        self.received: dict[str, dict[str, Received]] = {}
        """Subscription -> topic or partition -> what was received."""
        self._rng = rng
        self._parts: dict[str, list[str]] = {}
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._sending = True
        self._forgetful = True
        self._stored = asyncio.Event()
        self._everybody = asyncio.Barrier(_PEERS + 1)

    async def _create(self, topic: str, partitions: int) -> None:
        """Create a topic, whatever happens to the connection meanwhile."""
        while True:
            try:
                await self.client.admin.topics.create(topic, partitions=partitions)
                return
            except AlreadyExists:
                return
            except (Retriable, UnknownOutcome):
                pass  # the network is faulty from the beginning: try again

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Make the topics and set everybody to work; returns when all are connected."""
        plain, parted = self._plain, self._parted
        await self._create(plain, 0)
        await self._create(parted, PARTITIONS)
        for topic in (plain, parted):
            self._parts[topic] = [name for name, _ in (await self.client.topic(topic)).parts]
        sender = self.model.sender
        small, large = sender("small", plain), sender("large", plain, largest=60_000)
        keyed, many = sender("keyed", parted, keyed=True), sender("many", parted, keyed=True)
        exclusive, failover = SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER
        shared, key_shared = SubscriptionType.SHARED, SubscriptionType.KEY_SHARED
        self._producers = [
            tasks.create_task(self._produce(small)),
            tasks.create_task(self._produce(large, linger_ms=0)),
            tasks.create_task(self._produce(keyed, linger_ms=5)),
            tasks.create_task(self._produce_many(many, compression="lz4", batch_records=25)),
        ]
        self._consumers = [
            tasks.create_task(self._consume(*consumer))
            for consumer in (
                (plain, "exclusive", exclusive, self._ack_up_to),
                (plain, "shared", shared, self._ack_each),
                (plain, "shared", shared, self._ack_batch),
                (parted, "failover", failover, self._ack_up_to),
                (parted, "failover", failover, self._ack_up_to),
                (parted, "key_shared", key_shared, self._ack_each),
                (parted, "key_shared", key_shared, self._ack_batch),
            )
        ]
        assert len(self._producers) + len(self._consumers) == _PEERS
        await self._everybody.wait()

    def _receiving(self, topic: str, subscription: str) -> dict[str, Received]:
        ordered, by_key = subscription in ("exclusive", "failover"), subscription == "key_shared"
        return self.received.setdefault(
            subscription,
            {part: Received(in_order=ordered, by_key=by_key) for part in self._parts[topic]},
        )

    # ---- producing ----

    def _producer(self, sender: Sender, options: dict[str, Any]) -> Producer:
        # A broker that is dead for most of the time may keep one of many waiting for long.
        made: Producer = self.client.producer(
            sender.topic, name=sender.name, send_timeout=_MOST_PATIENCE, **options
        )
        return made

    async def _produce(self, sender: Sender, **options: Any) -> None:
        """Publish, in bursts, until told to stop; then wait for every ticket."""
        waiting: deque[tuple[int, Ticket]] = deque()
        async with self._producer(sender, options) as producer:
            await self._everybody.wait()
            while self._sending:
                for _ in range(self._rng.randint(1, 12 if sender.largest < 10_000 else 1)):
                    number = sender.count
                    sender.count += 1
                    key = sender.key(number)
                    waiting.append((number, await producer.send(sender.payload(number), key=key)))
                while waiting and (waiting[0][1].done() or len(waiting) > _MOST_OUTSTANDING):
                    await self._note(sender, *waiting.popleft())
                await asyncio.sleep(self._rng.uniform(0, 0.05))
            while waiting:
                await self._note(sender, *waiting.popleft())

    async def _produce_many(self, sender: Sender, **options: Any) -> None:
        """The same with many records a send."""
        async with self._producer(sender, options) as producer:
            await self._everybody.wait()
            while self._sending:
                numbers = range(sender.count, sender.count + self._rng.randint(1, 60))
                sender.count = numbers.stop
                ticket = await producer.send_many(
                    [sender.payload(number) for number in numbers],
                    keys=[sender.key(number) for number in numbers],
                )
                await self._note(sender, numbers[-1], ticket)
                await asyncio.sleep(self._rng.uniform(0, 0.1))

    async def _note(self, sender: Sender, number: int, ticket: Ticket) -> None:
        sender.acknowledged[number] = await ticket
        self._stored.set()

    async def some_stored(self) -> None:
        """Wait until the broker has stored something from now on."""
        self._stored.clear()
        await self._stored.wait()

    # ---- consuming ----

    async def _consume(
        self,
        topic: str,
        subscription: str,
        type_: SubscriptionType,
        work: Callable[[Consumer, Batch, Received], Awaitable[None]],
    ) -> None:
        """Receive until cancelled."""
        receiving = self._receiving(topic, subscription)
        async with self.client.consumer(
            topic,
            subscription,
            type=type_,
            start=Start.earliest(),
            failure_policy=_POLICY,
            queue_records=300,
        ) as consumer:
            await self._everybody.wait()
            async for batch in consumer.batches():
                received = receiving[batch.topic]
                received.take(batch, self.model.check_batch(batch))
                await work(consumer, batch, received)

    async def _ack_up_to(self, consumer: Consumer, batch: Batch, received: Received) -> None:
        """Acknowledge everything up to this batch, or up to a message within it, or not now."""
        messages = list(batch)
        last = len(messages) - 1
        if self._forgetful:
            last = self._rng.randint(-len(messages), last)
        if last >= 0:
            received.ack_up_to(messages[last].offset)
            await consumer.ack_cumulative(messages[last])

    async def _ack_each(self, consumer: Consumer, batch: Batch, received: Received) -> None:
        """Acknowledge messages one by one, in any order; give some back, forget some."""
        messages = list(batch)
        if self._forgetful:
            self._rng.shuffle(messages)
        for message in messages:
            chance = self._rng.random() if self._forgetful else 1.0
            if chance < 0.02:
                continue
            if chance < 0.05:
                await consumer.nack(message, reason="a test")
                continue
            received.acked.add(message.offset)
            await consumer.ack(message)

    async def _ack_batch(self, consumer: Consumer, batch: Batch, received: Received) -> None:
        """Acknowledge whole batches; forget some."""
        if not self._forgetful or self._rng.random() > 0.03:
            received.acked.update(batch.offsets)
            await consumer.ack(batch)

    # ---- checking ----

    async def check_cursors(self, url: str) -> dict[str, dict[str, Any]]:
        """Compare all cursors of the broker at ``url`` with what was acknowledged."""
        async with sulina.connect(url) as client:
            return await self._check_cursors(client)

    async def _check_cursors(self, client: Client) -> dict[str, dict[str, Any]]:
        described = {}
        for subscription, parts in self.received.items():
            for part, received in parts.items():
                arguments = {"topic": part, "subscription": subscription}
                found = await client.admin("subscription.describe", arguments)
                received.check_cursor(found)
                described[f"{subscription} of {part}"] = found
        return described

    async def stop_sending(self) -> None:
        """No more records; waits until every one has its answer. Consumers forget no more."""
        self._sending = self._forgetful = False
        await asyncio.gather(*self._producers)
        for sender in self.model.senders.values():
            assert sender.count, f"{sender.name} could never send"

    async def settle(self) -> None:
        """Check the logs, wait until everything in them is acknowledged and the broker knows it,
        and stop consuming."""
        ends = await self.check_logs()
        for parts in self.received.values():
            for part, received in parts.items():
                while received.prefix < ends[part]:
                    await asyncio.sleep(0.02)
                assert len(received.acked) == ends[part], "acknowledged what was never published"
        # Acknowledgements were lost with connections: what comes again is acknowledged again.
        while any(found["backlog"] for found in (await self._check_cursors(self.client)).values()):
            await asyncio.sleep(0.02)
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.wait(self._consumers)

    async def epochs(self) -> dict[str, int]:
        """The epoch of each topic and partition: it rises whenever an append has failed, also
        where the client tried again and its user did not notice."""
        described = [
            await self.client.admin("topic.describe", {"topic": topic}) for topic in self._parts
        ]
        return {log["topic"]: log["epoch"] for found in described for log in found["logs"]}

    async def check_logs(self) -> dict[str, int]:
        """See ``Model.check_log``."""
        ends: dict[str, int] = {}
        for topic in self._parts:
            ends |= await self.model.check_log(self.client, topic)
        return ends


@asynccontextmanager
async def workload(
    url: str, rng: random.Random, *, suffix: str = "", **options: Any
) -> AsyncIterator[Workload]:
    """A load on the broker at ``url``. Whatever goes wrong in it comes out of here.

    Topics are named with ``suffix``: loads that share a broker need one each.
    """
    async with sulina.connect(url, **options) as client, asyncio.TaskGroup() as tasks:
        load = Workload(client, rng, suffix)
        await load.start(tasks)
        yield load
