"""The audit trail of real brokers: what is recorded, and what happens if it can't be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sulina
from broker_containers.audit.trail import AuditSettings
from broker_containers.operations import audit as handler
from broker_containers.security.access import ANYONE, Caller
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.retention import Retention
from broker_containers.topics.topic import Topic
from sulina.audit import TOPIC, TRIM, AuditEvent, AuditOutcome, AuditRecord, ChainVerifier, decode
from sulina.cli.admin.audit import _pages
from sulina.errors import Refused, Retriable
from sulina.metadata.keys import audit
from sulina.names import TopicName
from sulina.operations.audit import AuditRow
from sulina.operations.declaration import FORWARDED
from tests.auth.broker import ROOT, Guarded, bearer, guarded_broker
from tests.auth.test_doors import admin_calls
from tests.danube.calls import Calls, status_of
from tests.http.test_cluster import PATIENCE, two_brokers

pytestmark = pytest.mark.timeout(100)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded_broker(tmp_path) as running:
        yield running


async def trail(client: sulina.Client, **filters: Any) -> list[AuditRecord]:
    found = []
    async for page in _pages(client.admin, filters, 0):
        for row in page.records:
            assert row.record is not None
            found.append(row.record)
    return found


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await check():
            await asyncio.sleep(0.02)


async def recorded(client: sulina.Client, **filters: Any) -> list[AuditRecord]:
    """The matching records, once there are any: sign-ins and refusals are queued."""
    found: list[AuditRecord] = []

    async def some() -> bool:
        found[:] = await trail(client, **filters)
        return bool(found)

    await until(some)
    return found


async def problems(client: sulina.Client) -> list[str]:
    return [each.text for each in (await verified(client)).problems]


async def verified(client: sulina.Client) -> ChainVerifier:
    verifier = None
    async for page in _pages(client.admin, {}, 0):
        verifier = verifier or ChainVerifier(
            page.heads, first=page.records[0].offset, starts=page.starts
        )
        for row in page.records:
            verifier.add(row.offset, row.record)
    assert verifier is not None and verifier.records
    verifier.finish()
    return verifier


async def test_a_change_is_recorded_before_it_begins_and_when_it_has_ended(
    guarded: Guarded,
) -> None:
    await guarded.root.admin.topics.create("/default/orders", partitions=2)
    act, outcome = await trail(guarded.root, operation="topic.create")
    assert (act.event, act.outcome) == (AuditEvent.ACT, AuditOutcome.STARTED)
    assert (act.principal, act.door, act.resource) == ("root", "binary", "/default/orders")
    assert act.address.startswith("127.0.0.1:") and json.loads(act.detail)["partitions"] == 2
    assert (outcome.event, outcome.outcome) == (AuditEvent.OUTCOME, AuditOutcome.DONE)
    assert outcome.act == act.sequence


async def test_a_change_that_fails_is_recorded_with_the_reason(guarded: Guarded) -> None:
    with pytest.raises(Refused):
        await guarded.root.admin.topics.delete("/default/missing")
    _, outcome = await trail(guarded.root, operation="topic.delete")
    assert outcome.outcome is AuditOutcome.FAILED and "missing" in outcome.detail


async def test_every_door_records_changes(guarded: Guarded) -> None:
    await guarded.root.admin.namespaces.create("by-binary")
    await guarded.http.ok(
        "POST", "/api/v1/namespaces", {"namespace": "by-http"}, headers=bearer(ROOT)
    )
    async with admin_calls(guarded, ROOT) as admin:
        await admin("NamespaceAdmin/CreateNamespace", name="by-danube")
    acts = await trail(guarded.root, operation="namespace.create", event=AuditEvent.ACT)
    assert [(each.door, each.resource) for each in acts] == [
        ("binary", "by-binary"),
        ("http", "by-http"),
        ("danube_admin", "by-danube"),
    ]


async def test_topics_created_by_their_first_use_are_recorded_at_every_door(
    guarded: Guarded,
) -> None:
    token = await guarded.token("web", "produce:/default/*", "consume:/default/*")
    async with guarded.connect(token) as client:
        await client.producer("/default/produced").open()
        await client.consumer("/default/consumed", "s").open()
        await client.producer("/default/produced").open()
    headers = bearer(token)
    await guarded.http.ok(
        "POST", "/api/v1/topics/default/posted/messages", data=b"x", headers=headers
    )
    async with Calls(guarded.grpc_url, token) as calls:
        await calls.producer("/default/danubian")
    found = await trail(guarded.root, operation="topic.create")
    assert all(each.principal == "web" and each.allowed for each in found)
    acts, outcomes = found[::2], found[1::2]
    assert {each.outcome for each in outcomes} == {AuditOutcome.DONE}
    assert [(each.door, each.resource) for each in acts] == [
        ("binary", "/default/produced"),
        ("binary", "/default/consumed"),
        ("http", "/default/posted"),
        ("danube", "/default/danubian"),
    ]
    assert {each.detail for each in acts} == {'{"reason": "its first use"}'}


async def test_a_first_use_that_creates_nothing_is_not_recorded(guarded: Guarded) -> None:
    await guarded.root.admin.quotas.namespace("default", topics=1)
    post = partial(guarded.http, "POST", data=b"x", headers=bearer(ROOT))
    paths = [f"/api/v1/topics/default/{name}/messages" for name in ("one", "one", "two", "three")]
    answers = await asyncio.gather(*map(post, (*paths[:2], "/api/v1/topics/no/one/messages")))
    assert [each.status for each in answers] == [200, 200, 404]
    assert {(await post(path)).status for path in paths[2:]} == {403}
    found = await trail(guarded.root, operation="topic.create", event=AuditEvent.ACT)
    assert [each.resource for each in found] == ["/default/one"]


async def test_a_consumer_that_seeks_or_unsubscribes_is_recorded(guarded: Guarded) -> None:
    token = await guarded.token("billing", "consume:/default/orders")
    async with guarded.connect(token) as client:
        consumer = client.consumer("/default/orders", "s")
        await consumer.open()
        await consumer.seek(sulina.Start.earliest())
        await consumer.unsubscribe()
    for operation in ("subscription.seek", "subscription.delete"):
        act, outcome = await trail(guarded.root, operation=operation)
        assert (act.principal, act.door, act.resource) == ("billing", "binary", "/default/orders")
        assert json.loads(act.detail)["subscription"] == "s"
        assert outcome.outcome is AuditOutcome.DONE


async def test_old_records_are_deleted_and_the_rest_is_still_verified(guarded: Guarded) -> None:
    broker, root = guarded.server.broker, guarded.root
    for number in range(5):
        await root.admin.namespaces.create(f"n{number}")
    topic = await broker.topic(TopicName.parse(TOPIC), create=False)
    assert isinstance(topic.log, ManagedLedger)
    await topic.log.roll()
    await root.admin.namespaces.create("another")
    await broker.retention.apply(topic)
    assert topic.log.start == 0
    await root.admin.config.set("broker.audit_retention_bytes", 1)
    await until(lambda: _trimmed(broker.retention, topic))
    after = await verified(root)
    assert after.problems == []
    [anchor] = after.anchors
    assert anchor.broker == "broker-1" and anchor.sequence >= 10
    act, outcome = await trail(root, operation=TRIM)
    [start] = await audit.starts(broker.store)
    assert json.loads(act.detail) == {"before": topic.log.start, "ends": start.digest}
    assert (start.offset, start.ends) == (topic.log.start, (anchor,))
    assert (act.principal, outcome.outcome) == ("root", AuditOutcome.DONE)


async def test_a_trail_is_trimmed_again_and_again(guarded: Guarded) -> None:
    broker, root = guarded.server.broker, guarded.root
    await root.admin.config.set("broker.audit_retention_bytes", 1)
    topic = await broker.topic(TopicName.parse(TOPIC), create=False)
    assert isinstance(topic.log, ManagedLedger)
    for number in range(3):
        await root.admin.namespaces.create(f"n{number}")
        await topic.log.roll()
        await root.admin.namespaces.create(f"m{number}")
        await until(lambda: _trimmed(broker.retention, topic))
        starts = await audit.starts(broker.store)
        assert starts[-1].offset == topic.log.start
        assert (await verified(root)).problems == []
    assert len(starts) == 2
    await audit.put_starts(broker.store, replace(starts[-1], ends=()))
    [problem, *_] = [each.text for each in (await verified(root)).problems if each.offset < 0]
    assert "what the metadata has about the records before offset" in problem


async def _trimmed(retention: Retention, topic: Topic) -> bool:
    return bool(await retention.apply(topic))


async def test_reading_and_messages_are_not_recorded(guarded: Guarded) -> None:
    await guarded.root.admin.topics.create("/default/orders")
    before = len(await trail(guarded.root))
    await guarded.root.admin.topics.list()
    await guarded.root.admin.topics.policy("/default/orders")
    async with guarded.root.producer("/default/orders") as producer:
        await producer.send(b"hello")
    assert len(await trail(guarded.root)) == before


async def test_a_refusal_is_recorded_at_every_door(guarded: Guarded) -> None:
    token = await guarded.token("reader", "consume:/default/orders")
    topic = "/default/orders"
    async with guarded.connect(token) as client:
        with pytest.raises(Refused):
            async with client.producer(topic):
                pass
        with pytest.raises(Refused):
            await client.admin.topics.delete(topic)
    answer = await guarded.http(
        "POST", f"/api/v1/topics{topic}/messages", data=b"x", headers=bearer(token)
    )
    assert answer.status == 403
    async with Calls(guarded.grpc_url, token) as calls:
        await status_of(calls.producer(topic))
    async with admin_calls(guarded, token) as admin:
        await status_of(admin("TopicAdmin/DeleteTopic", name=topic))

    async def all_five() -> bool:
        found = await trail(guarded.root, event=AuditEvent.REFUSAL, principal="reader")
        return {(each.door, each.operation) for each in found} == {
            ("binary", "produce"),
            ("binary", "topic.delete"),
            ("http", "messages.publish"),
            ("danube", "produce"),
            ("danube_admin", "topic.delete"),
        } and all(not each.allowed and each.resource == topic for each in found)

    await until(all_five)
    text = (await guarded.http("GET", "/metrics", headers=bearer(ROOT))).text
    assert 'sulina_refusals_total{door="binary",reason="denied"} 2' in text
    assert "sulina_audit_failing 0" in text


async def test_sign_ins_and_wrong_tokens_are_recorded(guarded: Guarded) -> None:
    made = await guarded.made("somebody", "consume:/default/x")
    async with guarded.connect(made["token"]):
        pass
    await guarded.root.admin.tokens.revoke(made["id"])
    with pytest.raises(Refused):
        async with guarded.connect(made["token"]):
            pass
    assert (await guarded.http("GET", "/api/v1/topics")).status == 401
    [sign_in] = await recorded(guarded.root, principal="somebody", event=AuditEvent.SIGN_IN)
    assert (sign_in.door, sign_in.address) == ("binary", "127.0.0.1")
    [revoked] = await recorded(guarded.root, resource=f"token {made['id']}")
    assert not revoked.allowed and "revoked" in revoked.detail

    async def http() -> bool:
        refused = await trail(guarded.root, event=AuditEvent.REFUSAL, operation="sign_in")
        return {each.door for each in refused} == {"binary", "http"}

    await until(http)


async def test_a_storm_of_refusals_becomes_few_records(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as guarded:
        token = await guarded.token("reader", "consume:/default/orders")
        async with guarded.connect(token) as client:
            for _ in range(300):
                with pytest.raises(Refused):
                    await client.admin.topics.delete("/default/orders")
    async with guarded_broker(tmp_path) as guarded:
        found = await trail(guarded.root, event=AuditEvent.REFUSAL, principal="reader")
        assert sum(each.count for each in found) == 300
        assert len(found) < 10
        assert await problems(guarded.root) == []


async def test_nobody_writes_changes_or_deletes_the_trail(guarded: Guarded) -> None:
    await guarded.root.admin.namespaces.create("shop")
    root = guarded.root
    with pytest.raises(Refused, match="only brokers write"):
        async with root.producer(TOPIC):
            pass
    for call in (
        root.admin.topics.delete(TOPIC),
        root.admin.topics.policy(TOPIC, retention_ms=1),
        root.admin.ledgers.offload(TOPIC),
        root.admin.subscriptions.policy(TOPIC, "s", max_redelivery_count=1),
        root.admin.namespaces.policy("system", retention_ms=1),
        root.admin.quotas.namespace("system", stored_bytes=1),
        root.admin("messages.publish", {"topic": TOPIC, "messages": [{"payload": "x"}]}),
        root.admin("topic.delete", {"topic": TOPIC, FORWARDED: True}),
    ):
        with pytest.raises(Refused):
            await call
    answer = await guarded.http(
        "POST", f"/api/v1/topics{TOPIC}/messages", data=b"x", headers=bearer(ROOT)
    )
    assert answer.status == 403
    async with Calls(guarded.grpc_url, ROOT) as calls:
        assert (await status_of(calls.producer(TOPIC))).name == "PERMISSION_DENIED"
    assert await problems(root) == []


async def test_a_call_that_claims_to_be_forwarded_is_recorded(guarded: Guarded) -> None:
    await guarded.root.admin("namespace.create", {"namespace": "shop", FORWARDED: True})
    [found] = await recorded(guarded.root, operation="namespace.create")
    assert (found.event, found.resource) == (AuditEvent.FORWARDED, "shop")


async def test_a_restart_continues_the_chain(tmp_path: Path) -> None:
    for number in range(3):
        async with guarded_broker(tmp_path) as guarded:
            await guarded.root.admin.namespaces.create(f"shop-{number}")
    async with guarded_broker(tmp_path) as guarded:
        found = await trail(guarded.root)
        assert [each.sequence for each in found] == list(range(1, len(found) + 1))
        assert await problems(guarded.root) == []


async def test_a_change_that_cannot_be_recorded_is_not_made_and_messages_still_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded_broker(tmp_path, audit=AuditSettings(wait_seconds=0.2)) as guarded:
        await guarded.root.admin.namespaces.create("before")
        await guarded.root.admin.topics.create("/default/orders")
        admin = guarded.server.services.operations.client
        publish = admin.call

        async def fails(name: str, arguments: Any) -> Any:
            if name == "messages.publish" and arguments["topic"] == TOPIC:
                raise Retriable("the disk is on fire")
            return await publish(name, arguments)

        monkeypatch.setattr(admin, "call", fails)
        with pytest.raises(Retriable, match="audit trail can't be written"):
            await guarded.root.admin.namespaces.create("refused")
        assert "refused" not in await guarded.root.admin.namespaces.list()
        first_use = "/api/v1/topics/default/new/messages"
        answer = await guarded.http("POST", first_use, data=b"x", headers=bearer(ROOT))
        assert answer.status == 503 and "audit trail can't be written" in answer.text
        found = [each.topic for each in await guarded.root.admin.topics.list()]
        assert found == ["/default/orders", TOPIC]
        async with guarded.root.producer("/default/orders") as producer:
            await (await producer.send(b"hello"))

        async def failing() -> bool:
            answer = await guarded.http("GET", "/metrics", headers=bearer(ROOT))
            return "sulina_audit_failing 1" in answer.text

        await until(failing)
        monkeypatch.undo()

        async def works() -> bool:
            try:
                await guarded.root.admin.namespaces.create("after")
            except Retriable:
                return False
            return True

        await until(works)
        refused = await trail(guarded.root, resource="refused")
        assert [each.outcome for each in refused] in (
            [],
            [AuditOutcome.STARTED, AuditOutcome.REFUSED],
        )
        assert await problems(guarded.root) == []


async def test_a_record_whose_outcome_is_unknown_is_written_again_unchanged(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = guarded.server.services.operations.client
    publish = admin.call
    lost: list[str] = []

    async def loses(name: str, arguments: Any) -> Any:
        answer = await publish(name, arguments)
        if name == "messages.publish" and not lost:
            lost.append(name)
            raise sulina.UnknownOutcome("the answer was lost")
        return answer

    monkeypatch.setattr(admin, "call", loses)
    await guarded.root.admin.namespaces.create("shop")
    found = await trail(guarded.root)
    assert len(found) > len({each.sequence for each in found})
    assert await problems(guarded.root) == []


async def test_a_removed_end_of_the_trail_is_found(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as guarded:
        await guarded.root.admin.namespaces.create("shop")
        head = guarded.server.services.audit.writer._stored[0]
    async with guarded_broker(tmp_path) as guarded:
        page = await guarded.root.admin.audit.list(offset=0)
        [known] = page.heads
        assert known.sequence >= head.sequence
        verifier = ChainVerifier(page.heads)
        for row in page.records[:1]:
            verifier.add(row.offset, row.record)
        verifier.finish()
        assert "missing at the end" in verifier.problems[0].text


async def test_the_trail_is_read_from_its_end(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "_PAGE", 4)  # several windows
    for number in range(5):
        await guarded.root.admin.namespaces.create(f"n{number}")
    expected = (await guarded.root.admin.audit.list(offset=0)).records[::-1]
    found: list[AuditRow] = []
    offset: int | None = None
    while True:
        page = await guarded.root.admin.audit.list(offset=offset, limit=3, newest_first=True)
        found += page.records
        offset = page.next_offset
        if page.at_end:
            break
    known = {row.offset for row in expected}
    assert [row for row in found if row.offset in known] == list(expected)
    acts = await guarded.root.admin.audit.list(
        operation="namespace.create", event=AuditEvent.ACT, newest_first=True, limit=2
    )
    assert [row.record.resource for row in acts.records if row.record] == ["n4", "n3"]


async def test_records_also_go_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with guarded_broker(tmp_path / "data", audit=AuditSettings(file)) as guarded:
        await guarded.root.admin.namespaces.create("shop")
        stored = await trail(guarded.root)
    written = [decode(line) for line in file.read_bytes().splitlines()]
    assert written[: len(stored)] == stored
    assert file.stat().st_mode & 0o777 == 0o600


async def test_without_an_audit_trail_changes_are_not_recorded(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, audit=None) as guarded:
        await guarded.root.admin.namespaces.create("shop")
        with pytest.raises(Refused, match="there is no audit trail"):
            await guarded.root.admin.audit.list()
        assert [each.topic for each in await guarded.root.admin.topics.list()] == []


async def test_brokers_of_a_cluster_write_their_chains_into_one_topic(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path, AuditSettings()) as two:
        for broker, url in two.urls.items():
            async with sulina.connect(url) as client:
                await client.admin.topics.create(f"/default/of-{broker}")
                await client.admin.subscriptions.create(f"/default/of-{broker}", "s")
        for url in two.urls.values():
            async with sulina.connect(url) as client:
                acts = await trail(client, event=AuditEvent.ACT)
                assert {each.broker for each in acts} == set(two.urls)
                assert {each.operation for each in acts} >= {"topic.create", "subscription.create"}
                assert await problems(client) == []


async def test_what_only_says_no_costs_the_trail_nothing(guarded: Guarded) -> None:
    """A caller that makes up names fills a bounded table, not the queue."""
    trail_of_broker = guarded.server.services.audit
    caller = Caller(ANYONE, "binary", "127.0.0.1:1")
    for number in range(5_000):
        trail_of_broker.refused(caller, "produce", f"/default/{number}", Refused("no"))
    assert trail_of_broker.writer.waiting < 600
