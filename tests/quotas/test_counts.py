"""Quotas of what is counted, from topics to connections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

import sulina
from broker_containers.doors.danube import danube_pb2 as pb
from sulina import Client, Overloaded, Refused
from sulina.metadata.keys.quotas import DEFAULTS, QuotaScope
from sulina.metadata.keys.quotas import update as set_quota
from tests.auth.broker import ROOT, Guarded, bearer
from tests.danube.brokers import one_broker
from tests.danube.calls import Calls, status_of
from tests.http.client import http_client
from tests.owners.brokers import Brokers


async def use(client: Client, namespace: str) -> dict[str, int | None]:
    found = await client.admin.quotas.namespace(namespace)
    return {row.limit: row.use for row in found.limits}


def hasty(guarded: Guarded, token: str) -> Client:
    """A client that gives up on retriable errors soon."""
    return sulina.connect(guarded.server.addresses.url, token=token, operation_timeout=1.5)


async def test_a_namespace_gets_no_more_topics_than_its_quota(
    guarded: Guarded, namespace: str
) -> None:
    admin = guarded.root.admin
    await admin.quotas.namespace(namespace, topics=2)
    await admin.topics.create(f"/{namespace}/a")
    async with guarded.root.producer(f"/{namespace}/b"):
        pass
    expected = (
        f"the namespace '{namespace}' has 2 topics, and one more would exceed its quota of 2. "
        "Remove some, or ask an administrator of the cluster to raise it: "
        f"`sulina quota set namespace {namespace} topics=...`"
    )
    with pytest.raises(Refused, match="has 2 topics") as refused:
        await admin.topics.create(f"/{namespace}/c")
    assert str(refused.value) == expected
    with pytest.raises(Refused, match="has 2 topics"):
        await guarded.root.producer(f"/{namespace}/c").open()
    assert (await use(guarded.root, namespace))["topics"] == 2
    await admin.topics.delete(f"/{namespace}/a")
    await admin.topics.create(f"/{namespace}/c")
    await admin.quotas.namespace(namespace, topics=0)
    await admin.topics.create(f"/{namespace}/d")


async def test_concurrent_creations_stop_exactly_at_the_quota(
    guarded: Guarded, namespace: str
) -> None:
    admin = guarded.root.admin
    await admin.quotas.namespace(namespace, topics=10)
    creations = (admin.topics.create(f"/{namespace}/t{number}") for number in range(40))
    outcomes = await asyncio.gather(*creations, return_exceptions=True)
    assert sum(isinstance(each, Refused) for each in outcomes) == 30
    assert len(await admin.topics.list(namespace=namespace)) == 10


async def test_partitions_count_apart_from_topics(guarded: Guarded, namespace: str) -> None:
    admin = guarded.root.admin
    await admin.quotas.namespace(namespace, topics=2, partitions=10)
    await admin.topics.create(f"/{namespace}/a", partitions=8)
    with pytest.raises(Refused, match="has 8 partitions, and 3 more would exceed its quota of 10"):
        await admin.topics.create(f"/{namespace}/b", partitions=3)
    await admin.topics.create(f"/{namespace}/b", partitions=2)
    counted = await use(guarded.root, namespace)
    assert (counted["topics"], counted["partitions"]) == (2, 10)


async def test_a_namespace_gets_no_more_subscriptions_than_its_quota(
    guarded: Guarded, namespace: str
) -> None:
    admin, topic = guarded.root.admin, f"/{namespace}/t"
    await admin.quotas.namespace(namespace, subscriptions=2)
    for name in ("a", "b", "b"):
        async with guarded.root.consumer(topic, name):
            pass
    with pytest.raises(Refused, match="has 2 subscriptions, and one more would exceed"):
        await guarded.root.consumer(topic, "c").open()
    await admin.subscriptions.delete(topic, "a")
    async with guarded.root.consumer(topic, "c"):
        pass


async def test_a_namespace_has_no_more_producers_and_consumers_than_its_quota(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(f"of-{namespace}", f"admin:/{namespace}/*")
    await guarded.root.admin.quotas.namespace(namespace, producers=2, consumers=1)
    topic = f"/{namespace}/t"
    async with guarded.connect(token) as client, hasty(guarded, token) as impatient:
        async with client.producer(topic, name="a"), client.producer(f"{topic}2", name="b"):
            with pytest.raises(Overloaded, match="has 2 producers, and that is its quota of 2"):
                await impatient.producer(topic, name="c").open()
            async with client.producer(topic, name="a"):
                pass  # one that reconnects with its name does not count twice
        async with client.producer(topic, name="c"), client.consumer(topic, "s", name="a"):
            with pytest.raises(Overloaded, match="has 1 consumers, and that is its quota of 1"):
                await impatient.consumer(topic, "other").open()
            async with client.consumer(topic, "s", name="a"):
                pass
    counted = await use(guarded.root, namespace)
    assert (counted["producers"], counted["consumers"]) == (0, 0)


async def test_a_principal_has_no_more_connections_and_producers_than_its_quota(
    guarded: Guarded, namespace: str
) -> None:
    principal = f"of-{namespace}"
    token = await guarded.token(principal, f"produce:/{namespace}/*")
    await guarded.root.admin.quotas.principal(principal, connections=2, producers=1)
    async with guarded.connect(token), guarded.connect(token):
        impatient = sulina.connect(
            guarded.server.addresses.url, token=token, operation_timeout=1.5, reconnect_timeout=0.5
        )
        with pytest.raises(sulina.Retriable, match=f"'{principal}' has 2 connections"):
            await impatient.topic(f"/{namespace}/t")
        await impatient.close()
    async with hasty(guarded, token) as client, client.producer(f"/{namespace}/t", name="a"):
        with pytest.raises(Overloaded, match="has 1 producers"):
            await client.producer(f"/{namespace}/u", name="b").open()


async def test_only_administrators_of_the_cluster_change_quotas(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(f"of-{namespace}", f"admin:/{namespace}/*")
    async with guarded.connect(token) as client:
        shown = await client.admin.quotas.namespace(namespace)
        assert shown.limits[0].allowed == DEFAULTS[QuotaScope.NAMESPACE].topics
        with pytest.raises(Refused, match="it needs cluster on everything"):
            await client.admin.quotas.namespace(namespace, topics=0)
        with pytest.raises(Refused, match="it needs cluster on everything"):
            await client.admin.quotas.namespace("*", topics=0)
        with pytest.raises(Refused, match="it needs"):
            await client.admin.quotas.namespace("default")


async def test_a_recreated_namespace_keeps_its_quota(guarded: Guarded, namespace: str) -> None:
    admin = guarded.root.admin
    await admin.quotas.namespace(namespace, topics=1)
    await admin.namespaces.delete(namespace)
    await admin.namespaces.create(namespace)
    await admin.topics.create(f"/{namespace}/a")
    with pytest.raises(Refused, match="has 1 topics"):
        await admin.topics.create(f"/{namespace}/b")


async def test_the_star_limits_all_namespaces_that_do_not_set_their_own(
    guarded: Guarded, namespace: str
) -> None:
    admin = guarded.root.admin

    async def row() -> Any:
        return (await admin.quotas.namespace(namespace)).limits[0]

    assert ((await row()).allowed, (await row()).set_by) == (1_000, "default")
    await admin.quotas.namespace("*", topics=700)
    try:
        assert ((await row()).allowed, (await row()).set_by) == (700, "*")
        await admin.quotas.namespace(namespace, topics=5)
        assert ((await row()).allowed, (await row()).set_by) == (5, namespace)
        await admin.quotas.namespace(namespace, topics=None)
        assert ((await row()).allowed, (await row()).set_by) == (700, "*")
    finally:
        await admin.quotas.namespace("*", topics=None)


async def test_schemas_have_a_quota(guarded: Guarded, namespace: str) -> None:
    admin = guarded.root.admin
    await admin.schemas.register(f"{namespace}-a", "string")
    await admin.quotas.broker("*", schemas=1)
    try:
        with pytest.raises(Refused, match=r"schemas, and one more would exceed its quota of 1\."):
            await admin.schemas.register(f"{namespace}-b", "string")
        await admin.schemas.register(f"{namespace}-a", "string")
    finally:
        await admin.quotas.broker("*", schemas=None)


async def test_http_shows_use_and_refuses_with_a_problem_of_its_own(
    guarded: Guarded, namespace: str
) -> None:
    http, headers = guarded.http, bearer(ROOT)
    path = f"/api/v1/quotas/namespaces/{namespace}"
    changed = await http("PATCH", path, {"topics": 1}, headers=headers)
    assert changed.status == 200, changed.text
    body = {"topic": f"/{namespace}/a"}
    assert (await http("POST", "/api/v1/topics", body, headers=headers)).status == 201
    body = {"topic": f"/{namespace}/b"}
    refused = await http("POST", "/api/v1/topics", body, headers=headers)
    assert "has 1 topics" in refused.problem(403, "quota-exceeded")
    shown = await http("GET", path, headers=headers)
    row = {"limit": "topics", "use": 1, "allowed": 1, "set_by": namespace}
    assert shown.json["limits"][0] == row
    metrics = (await http("GET", "/metrics", headers=headers)).text
    label = f'{{scope="namespace",name="{namespace}",limit="topics"}}'
    assert f"sulina_quota_use{label} 1\n" in metrics
    assert f"sulina_quota_limit{label} 1\n" in metrics
    assert 'sulina_quota_refusals_total{limit="topics"} ' in metrics


async def test_brokers_of_a_cluster_count_each_others_topics_and_follow_changes() -> None:
    async with asyncio.timeout(90), Brokers() as cluster:
        await cluster.start("one", "two")
        async with cluster.client("one") as one, cluster.client("two") as two:
            await one.admin.quotas.namespace("default", topics=3)
            for number in range(3):
                await one.admin.topics.create(f"/default/t{number}")
            while (await use(two, "default"))["topics"] != 3:
                await asyncio.sleep(0.02)
            with pytest.raises(Refused, match="has 3 topics"):
                await two.admin.topics.create("/default/more")


async def test_connections_over_http_count_with_those_of_the_binary_protocol(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(namespace, "lookup:*")
    quotas = guarded.root.admin.quotas
    await quotas.principal(namespace, connections=1)
    base = f"http://127.0.0.1:{guarded.server.addresses.http_port}"

    async def in_use() -> int | None:
        found = await quotas.principal(namespace)
        return {row.limit: row.use for row in found.limits}["connections"]

    async with http_client(base) as one, http_client(base) as other:
        for _ in range(3):  # all of one connection
            assert (await one("GET", "/metrics", headers=bearer(token))).status == 200
        assert await in_use() == 1
        refused = await other("GET", "/metrics", headers=bearer(token))
        assert f"the principal '{namespace}' has 1 connections" in refused.problem(
            429, "overloaded"
        )
        assert (await other("GET", "/health/ready")).status == 200
        with pytest.raises(Overloaded, match="has 1 connections"):
            await hasty(guarded, token).open()
        another = await guarded.token(f"{namespace}-other", "lookup:*")
        assert (await one("GET", "/metrics", headers=bearer(another))).status == 200
        assert await in_use() == 0  # the connection counts for whoever used it last
        assert (await other("GET", "/metrics", headers=bearer(token))).status == 200
    async with http_client(base) as later:  # connections that are gone do not count
        assert (await later("GET", "/metrics", headers=bearer(token))).status == 200


async def test_a_broker_has_a_quota_of_connections(guarded: Guarded, namespace: str) -> None:
    quotas = guarded.root.admin.quotas
    [me] = [row.broker for row in await guarded.root.admin.brokers.list()]
    found = await quotas.broker(me, connections=1)  # that of the root token
    assert {row.limit: row.use for row in found.limits}["connections"]
    try:
        async with http_client(f"http://127.0.0.1:{guarded.server.addresses.http_port}") as new:
            refused = await new("GET", "/metrics", headers=bearer(ROOT))
            assert "the broker" in refused.problem(429, "overloaded")
    finally:
        await quotas.broker(me, connections=None)


async def test_the_use_of_all_brokers_of_a_cluster_is_added_up() -> None:
    async with asyncio.timeout(90), Brokers() as cluster:
        await cluster.start("one", "two")
        async with cluster.client("one") as one, cluster.client("two") as two:
            async with one.producer("/default/a"), one.producer("/default/b"):
                found = await two.admin.quotas.namespace("default")
                assert found.brokers == ("one", "two")
                use = {row.limit: row.use for row in found.limits}
                assert (use["producers"], use["topics"]) == (2, 2)
                for broker in ("one", "two"):  # whoever answers knows the use of the other
                    rows = (await one.admin.quotas.broker(broker)).limits
                    assert {row.limit: row.use for row in rows}["connections"]
            listed = {each.name: each for each in await one.admin.quotas.list()}
            assert listed["default"].brokers == listed["two"].brokers == ("one", "two")


async def test_connections_over_grpc_count_with_those_of_other_doors(
    guarded: Guarded, namespace: str
) -> None:
    token = await guarded.token(namespace, "lookup:*")
    quotas = guarded.root.admin.quotas
    await quotas.principal(namespace, connections=1)

    async def lookup(calls: Calls) -> grpc.StatusCode:
        return await status_of(calls("TopicPartitions", topic=f"/{namespace}/t"))

    async with Calls(guarded.grpc_url, token) as one, Calls(guarded.grpc_url, token) as other:
        for _ in range(3):  # all of one connection
            assert await lookup(one) is not grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await other("TopicPartitions", topic=f"/{namespace}/t")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert f"the principal '{namespace}' has 1 connections" in (refused.value.details() or "")
        health = await other("HealthCheck")
        assert health.status == pb.HealthCheckResponse.CLOSE
        with pytest.raises(Overloaded, match="has 1 connections"):
            await hasty(guarded, token).open()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.admin_port}") as tools:
            call: Any = tools.unary_unary("/danube_admin.BrokerAdmin/ListNamespaces")
            with pytest.raises(grpc.aio.AioRpcError, match="has 1 connections") as refused:
                await call(b"", metadata=[("authorization", f"Bearer {token}")], timeout=60)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await one.channel.close()
        # The connection that was refused is used as soon as there is room.
        async with asyncio.timeout(60.0):
            while await lookup(other) is grpc.StatusCode.UNAVAILABLE:
                await asyncio.sleep(0.02)
        found = await quotas.principal(namespace)
        assert {row.limit: row.use for row in found.limits}["connections"] == 1


async def test_a_connection_counts_for_everybody_whose_calls_are_forwarded_over_it(
    guarded: Guarded, namespace: str
) -> None:
    quotas, root = guarded.server.broker.quotas, guarded.root.admin
    names = [f"{namespace}-{number}" for number in range(3)]
    tokens = [await guarded.token(name, "lookup:*") for name in names]
    await root.quotas.principal(names[2], connections=1)

    def used() -> list[int]:
        return [quotas.use((QuotaScope.PRINCIPAL, name), "connections") or 0 for name in names]

    async def lookup(calls: Calls) -> grpc.StatusCode:
        return await status_of(calls("TopicPartitions", topic=f"/{namespace}/t"))

    of_broker = QuotaScope.BROKER, guarded.server.broker.settings.broker_id
    before = quotas.use(of_broker, "connections") or 0
    peer = Calls(guarded.grpc_url, tokens[0])
    others = [Calls(guarded.grpc_url, token) for token in tokens[1:]]
    async with peer, Calls(guarded.grpc_url, tokens[2]) as own:
        unused = [each.channel for each in others]
        for each in others:
            each.channel = peer.channel  # as a broker does for its clients
        assert await lookup(own) is grpc.StatusCode.OK
        found = [await lookup(each) for each in (peer, *others, peer, others[0])]
        assert [each.name for each in found] == ["OK", "OK", "UNAVAILABLE", "OK", "OK"]
        assert used() == [1, 1, 1] and quotas.use(of_broker, "connections") == before + 2
        assert guarded.server.danube is not None
        grpc_server = guarded.server.danube.grpc
        shared = next(each for each in grpc_server._all() if len(each.users) > 1)
        shared.users[names[0]].seen -= 3600
        grpc_server._look_at(shared, shared.seen)
        assert used() == [0, 1, 1]
        for channel in unused:
            await channel.close()
    async with asyncio.timeout(60.0):
        while any(used()):
            await asyncio.sleep(0.02)


async def test_without_authentication_grpc_connections_count_for_the_broker(
    tmp_path: Path,
) -> None:
    async with one_broker(tmp_path) as broker, Calls(broker.url) as one, Calls(broker.url) as two:
        quotas = broker.server.broker.quotas
        await set_quota(broker.server.broker.store, QuotaScope.BROKER, "*", {"connections": 1})
        await quotas.caught_up()
        assert await status_of(one("TopicPartitions", topic="/default/t")) is grpc.StatusCode.OK
        with pytest.raises(grpc.aio.AioRpcError, match=r"the broker '.*' has 1 connections"):
            await two("TopicPartitions", topic="/default/t")
