"""NonReliable topics: a consumer that keeps up misses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.single_publish import SingleOutcome
from sulina.model import Delivery, Start, SubscriptionType
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import check_frame


class Sink:
    """A consumer that resolves ``received`` with its first frame."""

    def __init__(self) -> None:
        self.received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def deliver(self, frame: CachedFrame, selection: int | None, attempt: int) -> bool:
        self.received.set_result(bytes(frame.data))
        return True

    def active_changed(self, active: bool) -> None: ...

    def closed(self, reason: Exception) -> None: ...


async def test_the_first_record_is_delivered_if_a_consumer_asks_while_it_is_published(
    tmp_path: Path,
) -> None:
    name = TopicName.parse("/default/volatile")
    async with run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server:
        broker = server.broker
        topic = await broker.topic(name, create=True, delivery=Delivery.NON_RELIABLE)
        exclusive = SubscriptionType.EXCLUSIVE
        subscription = await broker.subscriptions.subscribe(
            topic, "s", exclusive, Start.latest(), None
        )
        sink, outcome = Sink(), SingleOutcome()
        member = topic.join(subscription, "c", sink, (), "")
        producer = await topic.attach("p", outcome, exclusive=False)
        frame = memoryview(bytearray(encode_frame(Origin("p"), 0, [b"first"], 0)))
        subscription.grant(member, 1, 1 << 20)  # the subscription looks before the frame is there
        topic.publish(producer, 0, frame, check_frame(frame))
        assert await outcome.outcome == 0
        async with asyncio.timeout(10):
            assert b"first" in await sink.received
