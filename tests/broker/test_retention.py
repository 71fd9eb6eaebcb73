"""What retention deletes, and what it must keep."""

from __future__ import annotations

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.managed_ledger import LedgerSettings
from broker_containers.topics.retention import expired
from sulina import Client, Refused, Start
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState
from sulina.metadata.keys.policy import Policy
from tests.broker.actions import ack_all, bodies, eventually, log_of, numbered, publish, take
from tests.broker.cluster import SMALL_JOURNAL, Cluster
from tests.broker.conftest import MakeCluster

TOPIC = "/default/forgetful"
HOUR_US = 3_600_000_000
OLD = [
    LedgerRef(n + 1, n * 10, n * 10 + 9, LedgerState.CLOSED, 100, n * HOUR_US, n * HOUR_US)
    for n in range(5)
]


@pytest.mark.parametrize(
    ("policy", "consumed", "gone"),
    [
        (Policy(), 50, 0),
        (Policy(retention_ms=int(2.5 * 3_600_000)), 0, 2),
        (Policy(retention_ms=1), 0, 4),
        (Policy(retention_bytes=250), 0, 3),
        (Policy(retention_bytes=1), 0, 4),
        (Policy(delete_consumed=True), 25, 2),
        (Policy(delete_consumed=True), 0, 0),
        (Policy(delete_consumed=True), 50, 4),
        (Policy(delete_consumed=True, retention_bytes=450), 0, 1),
    ],
)
def test_the_oldest_ledgers_go_by_age_size_or_consumption_but_never_the_newest(
    policy: Policy, consumed: int, gone: int
) -> None:
    assert expired(OLD, policy, now_us=4 * HOUR_US, consumed=consumed) == gone


@pytest.fixture
async def forgetful(make_cluster: MakeCluster) -> Cluster:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=1000), retention_seconds=0.05)
    return await make_cluster(settings, SMALL_JOURNAL)


async def start_of(client: Client) -> int:
    start = (await log_of(client, TOPIC))["start_offset"]
    assert isinstance(start, int)
    return start


async def test_records_that_every_subscription_acknowledged_go_and_the_others_stay(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        await publish(client, TOPIC, numbered(100))
        async with client.consumer(TOPIC, "fast", start=Start.earliest()) as fast:
            await ack_all(fast, await take(fast, 100))
            async with client.consumer(TOPIC, "slow", start=Start.earliest()) as slow:
                taken = await take(slow, 100)
                await ack_all(slow, taken[:50])
                await client.admin("topic.policy", {"topic": TOPIC, "delete_consumed": True})

                async def trimmed() -> bool:
                    return await start_of(client) > 0

                await eventually(trimmed)
                assert await start_of(client) <= 50
        async with client.consumer(TOPIC, "slow") as slow:
            assert bodies(await take(slow, 50)) == numbered(50, 50)


async def test_offsets_go_on_after_everything_old_is_gone_and_the_broker_restarted(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        await publish(client, TOPIC, numbered(100))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 1})

        async def trimmed() -> bool:
            return await start_of(client) > 80

        await eventually(trimmed)
        await forgetful.stop()
        await forgetful.start()
        (added,) = await publish(client, TOPIC, [b"next"])
        assert added.offset == 100


async def test_a_subscription_behind_what_was_deleted_goes_on_with_what_is_kept(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        arguments = {"topic": TOPIC, "subscription": "late", "start": "earliest"}
        await client.admin("topic.create", {"topic": TOPIC})
        await client.admin("subscription.create", arguments)
        await publish(client, TOPIC, numbered(100))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 2000})

        async def trimmed() -> bool:
            return await start_of(client) > 50

        await eventually(trimmed)
        start = await start_of(client)
        async with client.consumer(TOPIC, "late") as late:
            assert bodies(await take(late, 100 - start)) == numbered(100 - start, start)


async def test_a_limit_that_does_not_exist_is_refused_by_name(forgetful: Cluster) -> None:
    async with forgetful.client() as client:
        await client.admin("topic.create", {"topic": TOPIC})
        with pytest.raises(Refused, match="no argument 'retention_days'"):
            await client.admin("topic.policy", {"topic": TOPIC, "retention_days": 7})
