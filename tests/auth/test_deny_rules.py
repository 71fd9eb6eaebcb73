"""Deny rules win over grants and bindings, at every door, also for connected clients."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from broker_containers.security.access import Access, Need, of_topic
from broker_containers.security.records import SecurityRecords
from sulina.errors import NotFound, Refused
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import auth
from sulina.metadata.keys.auth import Grant
from sulina.model import Action
from sulina.runtime.machine import secret_text
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.auth.broker import ROOT, Guarded, bearer, json_web_token
from tests.auth.test_bindings import bind
from tests.auth.test_doors import ALL, NONE, PATIENCE, outcomes, send_for_ever
from tests.danube.calls import Calls
from tests.support.shell import CommandResult, Shell

ORDERS = "/shop/orders"
MINE = f"consume:{ORDERS}"
CONSUME_OR_TOPICS = Need(Action.CONSUME, ORDERS, Action.TOPICS)


@pytest.mark.parametrize(
    ("grant", "denied", "need", "allowed"),
    [
        ("admin:*", f"consume:{ORDERS}", of_topic(Action.CONSUME, ORDERS), False),
        ("admin:*", f"consume:{ORDERS}", of_topic(Action.CONSUME, f"{ORDERS}-part-1"), False),
        ("admin:*", f"consume:{ORDERS}", of_topic(Action.CONSUME, ORDERS, "s"), False),
        ("admin:*", f"consume:{ORDERS}", of_topic(Action.CONSUME, "/shop/others"), True),
        ("admin:*", f"consume:{ORDERS}", of_topic(Action.PRODUCE, ORDERS), True),
        ("admin:*", f"consume:{ORDERS}", of_topic(None, ORDERS), True),
        ("admin:*", f"consume:{ORDERS}", CONSUME_OR_TOPICS, True),
        (MINE, "admin:/shop/*", of_topic(Action.CONSUME, ORDERS), False),
        (MINE, "admin:/shop/*", of_topic(None, ORDERS), False),
        (MINE, f"consume:{ORDERS}", of_topic(None, ORDERS), False),
        (MINE, f"lookup:{ORDERS}", of_topic(None, ORDERS), False),
        (MINE, f"lookup:{ORDERS}", of_topic(Action.CONSUME, ORDERS), True),
        (
            f"consume:{ORDERS}",
            f"consume:{ORDERS}#a*",
            of_topic(Action.CONSUME, ORDERS, "ab"),
            False,
        ),
        (MINE, f"consume:{ORDERS}#a*", of_topic(Action.CONSUME, ORDERS, "b"), True),
        (MINE, f"consume:{ORDERS}#a", of_topic(None, ORDERS), True),
        (MINE, f"consume:{ORDERS}#a", of_topic(None, ORDERS, "a"), False),
        ("admin:*", "admin:/shop/*", Need(Action.NAMESPACES, "/shop/*"), False),
        ("admin:*", "admin:/shop/*", Need(Action.CLUSTER, "*"), True),
        ("admin:*", "admin:/shop/*", of_topic(None, "*"), False),
        ("admin:*", "cluster:*", Need(Action.CLUSTER, "*"), False),
        ("admin:*", "schemas:orders", Need(Action.SCHEMAS, "orders"), False),
        ("admin:*", "admin:*", Need(), False),
        ("admin:*", "consume:*", Need(), True),
    ],
)
def test_a_deny_rule_wins_where_it_applies(
    grant: str, denied: str, need: Need, allowed: bool
) -> None:
    access = Access("x", (Grant.parse(grant),), denied=(Grant.parse(denied),))
    assert access.allows(need) is allowed


async def deny(guarded: Guarded, principal: str, *rules: str) -> None:
    grants = [f"deny:{rule}" for rule in rules]
    await guarded.root.admin("principal.grant", {"principal": principal, "grants": grants})


async def allow_again(guarded: Guarded, principal: str, *rules: str) -> None:
    grants = [f"deny:{rule}" for rule in rules]
    await guarded.root.admin("principal.withdraw", {"principal": principal, "grants": grants})


async def test_every_door_refuses_what_is_denied_until_the_rule_is_withdrawn(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, "admin:*")
    await bind(guarded, name, "topic", topic, "Produce", "Lookup")
    assert await outcomes(guarded, token, topic) == ALL
    for rule in (f"admin:{topic}", "admin:/default/*", "admin:*"):
        await deny(guarded, name, rule)
        assert await outcomes(guarded, token, topic) == NONE
        await allow_again(guarded, name, rule)
        assert await outcomes(guarded, token, topic) == ALL
    answer = await guarded.http(
        "POST",
        f"/api/v1/principals/{name}/grants",
        {"grants": [f"deny:produce:{topic}"]},
        headers=bearer(ROOT),
    )
    assert answer.json["denied"] == [f"deny:produce:{topic}"]
    assert await outcomes(guarded, token, topic) == [False, False, False, True]


async def test_connected_clients_lose_what_is_denied_at_once(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"produce:{topic}", f"consume:{topic}")
    async with guarded.connect(token) as client, Calls(guarded.grpc_url, token) as calls:
        producer = client.producer(topic)
        await producer.open()
        mine, other = client.consumer(topic, "mine"), client.consumer(topic, "other")
        await mine.open()
        await other.open()
        stream = calls.stream(await calls.subscribe(topic, subscription="danube"))
        await (await producer.send(b"first"))
        assert (await stream.read()).payload == b"first"
        assert (await mine.receive(PATIENCE)).payload == b"first"
        await deny(guarded, name, f"consume:{topic}#mine", f"consume:{topic}#danube")
        with pytest.raises(Refused, match=f"the rule deny:consume:{topic}#mine forbids it"):
            await mine.receive(PATIENCE)
        assert (await other.receive(PATIENCE)).payload == b"first"
        await (await producer.send(b"second"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await deny(guarded, name, f"produce:{topic}")
        with pytest.raises(Refused, match=f"withdraw {name} deny:produce:{topic}` removes"):
            await send_for_ever(producer)


async def test_a_deny_rule_alone_makes_nobody_a_principal(
    guarded: Guarded, topic: str, name: str
) -> None:
    await deny(guarded, name, f"produce:{topic}")
    with pytest.raises(Refused, match="unknown principal"):
        await guarded.connect(json_web_token(name)).open()
    await bind(guarded, name, "topic", topic, "Produce", "Lookup")
    await guarded.root.admin("topic.create", {"topic": topic})
    assert await outcomes(guarded, json_web_token(name), topic) == [False, False, False, True]


async def test_deleting_a_principal_deletes_its_deny_rules(guarded: Guarded, name: str) -> None:
    await deny(guarded, name, "produce:*")
    await guarded.root.admin("principal.delete", {"principal": name})
    rows = await guarded.root.admin("principal.list", {})
    assert name not in [row["principal"] for row in rows]


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as running:
        yield running


async def test_deny_rules_are_set_listed_and_removed_by_the_command_line(
    guarded: Guarded, shell: Shell, name: str
) -> None:
    async def sulina(*words: str, code: int = 0) -> CommandResult:
        options = ("--url", guarded.server.addresses.url, "--token", ROOT)
        return await shell(*options, "security", *words, code=code)

    rule = f"deny:consume:/default/{name}#mine"
    done = await sulina("grant", name, "consume:/default/*", rule)
    assert done.stdout == f"grants of {name}: consume:/default/*, {rule}\n"
    [row] = [each for each in (await sulina("list", "--json")).json() if each["principal"] == name]
    assert (row["grants"], row["denied"]) == (["consume:/default/*"], [rule])
    assert "deny rules" in (await sulina("list")).stdout
    assert (
        await sulina("withdraw", name, rule)
    ).stdout == f"grants of {name}: consume:/default/*\n"
    assert f"has no rule {rule}" in (await sulina("withdraw", name, rule, code=1)).stderr
    assert "is not a grant" in (await sulina("grant", name, "deny:all", code=1)).stderr


async def test_a_principal_without_deny_rules_leaves_no_record() -> None:
    clock = RealClock()
    store = await EmbeddedStore.open(clock, MemoryDisk())
    records = SecurityRecords(store, clock, secret_text)
    rule, other = Grant.parse("consume:*"), Grant.parse("produce:*")
    try:
        await records.deny("web", [rule, other])
        await records.deny("web", [rule])
        assert await auth.list_denied(store) == {"web": (rule, other)}
        await records.stop_denying("web", [other])
        with pytest.raises(NotFound):
            await records.stop_denying("web", [other])
        await records.stop_denying("web", [rule])
        assert await store.get(auth.denial_key("web")) is None
    finally:
        await store.close()
