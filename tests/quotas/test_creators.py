"""Quotas of principals on what they created."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from broker_containers.cluster.peers import Peers
from broker_containers.security.access import CREATING_FOR
from sulina import FailurePolicy, Poison, Refused
from sulina.metadata.keys import topics
from sulina.metadata.keys.members import BrokerRecord
from sulina.metadata.keys.schemas import Compatibility
from sulina.names import TopicName
from sulina.operations.declaration import FORWARDED
from tests.auth.broker import ROOT, Guarded, bearer
from tests.danube.calls import Calls, status_of


async def created(guarded: Guarded, principal: str) -> tuple[int | None, ...]:
    """Its topics, partitions, subscriptions and schemas."""
    found = await guarded.root.admin.quotas.principal(principal)
    use = {row.limit: row.use for row in found.limits}
    return tuple(use[name] for name in ("topics", "partitions", "subscriptions", "schemas"))


async def test_a_principal_creates_no_more_than_its_quota(guarded: Guarded, namespace: str) -> None:
    token = await guarded.token(namespace, f"admin:/{namespace}/*")
    limits = {"topics": 3, "partitions": 4, "subscriptions": 1}
    await guarded.root.admin.quotas.principal(namespace, **limits)
    async with guarded.connect(token) as client:
        admin = client.admin
        await admin.topics.create(f"/{namespace}/a", partitions=3)
        async with client.producer(f"/{namespace}/b"):
            pass
        with pytest.raises(Refused, match="has 3 partitions, and 2 more would exceed its quota"):
            await admin.topics.create(f"/{namespace}/c", partitions=2)
        await admin.topics.create(f"/{namespace}/c")
        with pytest.raises(Refused, match="has 3 topics") as refused:
            await client.producer(f"/{namespace}/d").open()
        assert str(refused.value) == (
            f"the principal '{namespace}' has 3 topics, and one more would exceed its quota of 3. "
            "Remove some, or ask an administrator of the cluster to raise it: "
            f"`sulina quota set principal {namespace} topics=...`"
        )
        async with client.consumer(f"/{namespace}/b", "one"):
            pass
        with pytest.raises(Refused, match=f"'{namespace}' has 1 subscriptions"):
            await client.consumer(f"/{namespace}/b", "two").open()
        assert await created(guarded, namespace) == (3, 3, 1, 0)
        # Others are not affected, and what root creates counts for nobody.
        await guarded.root.admin.topics.create(f"/{namespace}/d")
        async with guarded.root.consumer(f"/{namespace}/b", "two"):
            pass
        # Whoever deletes it, its creator has room again.
        await guarded.root.admin.topics.delete(f"/{namespace}/a")
        await guarded.root.admin.subscriptions.delete(f"/{namespace}/b", "one")
        assert await created(guarded, namespace) == (2, 0, 0, 0)
        await admin.topics.create(f"/{namespace}/e")
        await admin.subscriptions.create(f"/{namespace}/e", "one")
    assert await created(guarded, namespace) == (3, 0, 1, 0)


async def test_a_principal_registers_no_more_subjects_than_its_quota(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(namespace, "admin:*")
    await guarded.root.admin.quotas.principal(namespace, schemas=1)
    async with guarded.connect(token) as client:
        await client.admin.schemas.register(f"{namespace}-a", "string")
        async with asyncio.timeout(60.0):
            while (await created(guarded, namespace))[3] != 1:
                await asyncio.sleep(0.01)
        with pytest.raises(Refused, match=f"the principal '{namespace}' has 1 schemas, and one"):
            await client.admin.schemas.register(f"{namespace}-b", "string")
        # A change of it by others does not change its creator.
        admin = guarded.root.admin
        await admin.schemas.compatibility(f"{namespace}-a", compatibility=Compatibility.NONE)
        await admin.schemas.register(f"{namespace}-a", "bytes")
        assert await created(guarded, namespace) == (0, 0, 0, 1)
        await client.admin.schemas.delete(f"{namespace}-a")
        async with asyncio.timeout(60.0):
            while (await created(guarded, namespace))[3]:
                await asyncio.sleep(0.01)


async def test_danubes_clients_create_within_the_quota_of_their_principal(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(namespace, f"admin:/{namespace}/*")
    await guarded.root.admin.quotas.principal(namespace, topics=1, partitions=2)
    async with Calls(guarded.grpc_url, token) as calls:
        for number in range(2):
            await calls.producer(f"/{namespace}/t-part-{number}")
        for more in ("t-part-2", "u"):
            refused = await status_of(calls.producer(f"/{namespace}/{more}"))
            assert refused.name == "RESOURCE_EXHAUSTED"
    assert await created(guarded, namespace) == (1, 2, 0, 0)


async def test_http_and_metrics_show_what_a_principal_created(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(namespace, f"admin:/{namespace}/*")
    path, root = f"/api/v1/quotas/principals/{namespace}", bearer(ROOT)
    assert (await guarded.http("PATCH", path, {"topics": 1}, headers=root)).status == 200
    body = {"topic": f"/{namespace}/a"}
    made = await guarded.http("POST", "/api/v1/topics", body, headers=bearer(token))
    assert made.status == 201
    body = {"topic": f"/{namespace}/b"}
    refused = await guarded.http("POST", "/api/v1/topics", body, headers=bearer(token))
    assert f"the principal '{namespace}' has 1 topics" in refused.problem(403, "quota-exceeded")
    row = {"limit": "topics", "use": 1, "allowed": 1, "set_by": namespace}
    assert row in (await guarded.http("GET", path, headers=root)).json["limits"]
    metrics = (await guarded.http("GET", "/metrics", headers=root)).text
    label = f'{{scope="principal",name="{namespace}",limit="topics"}}'
    assert f"sulina_quota_use{label} 1\n" in metrics and f"limit{label} 1\n" in metrics


async def test_dead_letter_topics_count_for_nobody(guarded: Guarded, namespace: str) -> None:
    token = await guarded.token(namespace, f"admin:/{namespace}/*")
    await guarded.root.admin.quotas.principal(namespace, topics=1)
    letters = f"/{namespace}/letters"
    policy = FailurePolicy(0, poison=Poison.DEAD_LETTER, dead_letter_topic=letters)
    async with (
        guarded.connect(token) as client,
        client.consumer(f"/{namespace}/t", "s", failure_policy=policy) as consumer,
        client.producer(f"/{namespace}/t") as producer,
    ):
        await producer.send(b"bad")
        await consumer.nack(await consumer.receive())
        async with asyncio.timeout(60.0):
            store, name = guarded.server.broker.store, TopicName.parse(letters)
            while (found := await topics.get(store, name)) is None:
                await asyncio.sleep(0.01)
    assert found.created_by is None
    assert (await created(guarded, namespace))[0] == 1


def _as_root(url: str) -> sulina.Client:
    return sulina.connect(url, token=ROOT)


async def test_what_a_broker_forwards_counts_for_the_first_caller(
    guarded: Guarded, namespace: str
) -> None:
    arguments = {"topic": f"/{namespace}/t", FORWARDED: namespace}
    await guarded.root.admin("topic.create", arguments)
    assert await created(guarded, namespace) == (1, 0, 0, 0)
    sender = Peers(lambda _: BrokerRecord(guarded.server.addresses.url), _as_root)
    for number, who in enumerate((namespace, "")):
        CREATING_FOR.set(who)
        await sender.admin("other", "topic.create", {"topic": f"/{namespace}/t{number}"})
    await sender.close()
    assert await created(guarded, namespace) == (2, 0, 0, 0)
    token = await guarded.token(namespace, "admin:*")
    async with guarded.connect(token) as client:
        with pytest.raises(Refused, match="only brokers may send"):
            await client.admin("topic.create", {"topic": "/default/t", FORWARDED: "somebody"})
