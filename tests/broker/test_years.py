"""Years of a topic's life in seconds, against a model: expiry, retention, undoing it, restarts.

The clock moves by hours to months between steps, so nothing waits. What a consumer gets, and what
can be read, must be exactly what the model says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.subscriptions import subscription
from broker_containers.subscriptions.expiry import Lifetime
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics import retention
from sulina import Client, Refused
from sulina.metadata.keys.ledger_list import LedgerList
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import ack_all, log_of, read_all, take
from tests.broker.moved_cluster import HOUR, MovedClock, MovedCluster

TOPIC = "/default/years"
DAY = 24 * HOUR
TTL, KEPT, GRACE = 40 * DAY, 200 * DAY, 30 * DAY
SETTINGS = BrokerSettings(
    ledger=LedgerSettings(roll_bytes=400), grace_seconds=GRACE, retention_seconds=3600
)


@dataclass(slots=True)
class Model:
    """What the topic should be."""

    published: list[float] = field(default_factory=list)
    """When each record was, by offset."""
    expires: list[float] = field(default_factory=list)
    acked: set[int] = field(default_factory=set)

    def deliverable(self, start: int, now: float) -> list[int]:
        late = [min(at + TTL, end) for at, end in zip(self.published, self.expires, strict=True)]
        return [
            offset
            for offset in range(start, len(late))
            if late[offset] > now and offset not in self.acked
        ]


class Life:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk, self.metadata, self.clock = MemoryDisk(), MemoryDisk(), MovedClock()
        self.model = Model()
        self.now = 0.0
        self.start = 0

    async def run(self, steps: int) -> None:
        left = steps
        while left > 0:
            cluster = MovedCluster(
                self.disk, metadata=self.metadata, clock=self.clock, settings=SETTINGS
            )
            async with cluster, cluster.client() as client:
                if left == steps:
                    await client.admin.topics.create(TOPIC)
                    limits = {"ttl_ms": TTL * 1000, "retention_ms": KEPT * 1000}
                    await client.admin("topic.policy", {"topic": TOPIC, **limits})
                    await client.admin(
                        "subscription.create",
                        {"topic": TOPIC, "subscription": "s", "start": "earliest"},
                    )
                for _ in range(min(left, self.chance.randint(2, 5))):  # then it restarts
                    await self.step(cluster, client)
                    left -= 1

    async def step(self, cluster: MovedCluster, client: Client) -> None:
        chance, model = self.chance, self.model
        async with client.producer(TOPIC, batch_records=chance.choice((1, 3))) as producer:
            for _ in range(chance.randint(0, 8)):
                expires = chance.choice((None, None, chance.uniform(1, 100) * DAY))
                wall_us = self.clock.wall_us()
                body = b"%d" % len(model.published)
                extra: dict[str, Any] = {}
                if expires is not None:
                    # The producer's clock is the real one: state the moment by the broker's.
                    extra = {"expires": expires + self.clock.ahead}
                await producer.send(body, publish_time_us=wall_us, **extra)
                model.published.append(self.now)
                model.expires.append(float("inf") if expires is None else self.now + expires)
        moved = chance.choice((1.0, 20.0, 90.0)) * chance.uniform(0.5, 1.0) * DAY
        self.now += moved
        cluster.move(moved / HOUR)
        await self.apply(cluster, client)
        expected = model.deliverable(self.start, self.now)
        async with client.consumer(TOPIC, "s") as consumer:
            messages = await take(consumer, len(expected))
            assert sorted(message.offset for message in messages) == expected
            some = [message for message in messages if chance.random() < 0.6]
            await ack_all(consumer, some)
            model.acked |= {message.offset for message in some}

    async def apply(self, cluster: MovedCluster, client: Client) -> None:
        """Retention: nothing goes before its time, everything that is left can be read."""
        (topic,) = cluster.broker.loaded()
        log = topic.log
        assert isinstance(log, ManagedLedger)
        before = log.start
        await cluster.broker.retention.apply(topic)
        gone = self.model.published[before : log.start]
        assert all(self.now - at > KEPT for at in gone), "removed before its time"
        assert await read_all(client, TOPIC) == [
            b"%d" % offset for offset in range(log.start, len(self.model.published))
        ]
        if log.start > before and self.chance.random() < 0.5:
            await cluster.broker.retention.apply(topic)  # deletes nothing that is to be kept
            await self.undo(client, before)
            await cluster.broker.retention.apply(topic)
        self.start = (await log_of(client, TOPIC))["start_offset"]

    async def undo(self, client: Client, before: int) -> None:
        """What was just removed comes back, with every byte, once the policy allows it."""
        with pytest.raises(Refused, match="would remove it again"):
            await client.admin.topics.undo_retention(TOPIC)
        await client.admin("topic.policy", {"topic": TOPIC, "retention_ms": 0})
        undone = await client.admin.topics.undo_retention(TOPIC)
        assert undone.start_offset <= before
        assert await read_all(client, TOPIC) == [
            b"%d" % offset for offset in range(undone.start_offset, len(self.model.published))
        ]
        await client.admin("topic.policy", {"topic": TOPIC, "retention_ms": KEPT * 1000})


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_delivered_or_deleted_at_the_wrong_time(seed: int) -> None:
    life = Life(seed)
    await life.run(24)
    assert life.now > 365 * DAY and life.start > 0, "the run was long enough to mean something"


def _never(*_: object) -> int:
    return 0


ABLATIONS: dict[str, list[tuple[Any, str, Any]]] = {
    "check_expiry": [(subscription, "expired_records", _never), (Lifetime, "over", _never)],
    "whole_ledger_is_old": [
        (retention, "expired", lambda refs, policy, now_us, consumed: max(len(refs) - 1, 0))
    ],
    "keep_what_is_removed": [(LedgerList, "overdue", lambda each, now_us: each.hidden)],
}


@pytest.mark.parametrize("safeguard", ABLATIONS)
async def test_without_a_safeguard_the_model_notices(
    safeguard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, name, replacement in ABLATIONS[safeguard]:
        monkeypatch.setattr(target, name, replacement)
    with pytest.raises((AssertionError, Refused)):
        await _all_seeds()


async def _all_seeds() -> None:
    for seed in range(3):
        await Life(seed).run(24)
