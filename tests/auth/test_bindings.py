"""Grants, tokens, and roles and bindings created by Danube's admin services, at every door."""

from __future__ import annotations

import time

import grpc
import pytest

from broker_containers.operations.running import authorize
from broker_containers.security.access import (
    ANYONE,
    Access,
    Need,
    of_topic,
)
from broker_containers.security.errors import Denied, Unauthenticated
from broker_containers.security.jwt import read_jwt
from broker_containers.security.settings import AuthSettings, JwtSettings
from sulina import Start
from sulina.errors import NotFound, Refused
from sulina.metadata.keys.auth import Grant
from sulina.model import Action
from sulina.operations.declaration import FORWARDED
from tests.auth.broker import JWT_KEY, ROOT, Guarded, bearer, json_web_token
from tests.auth.test_doors import ALL, NONE, PATIENCE, admin_calls, outcomes, send_for_ever
from tests.danube.calls import Calls, status_of

Code = grpc.StatusCode


async def bind(guarded: Guarded, name: str, scope: str, resource: str, *permissions: str) -> None:
    """A role and a binding with a principal's name."""
    async with admin_calls(guarded, ROOT) as admin:
        await admin("SecurityAdmin/CreateRole", role={"name": name, "permissions": permissions})
        await admin(
            "SecurityAdmin/CreateBinding",
            binding={
                "id": name,
                "principal_type": "service_account",
                "principal_name": name,
                "role_names": [name],
                "scope": scope,
                "resource_name": resource,
            },
        )


async def unbind(guarded: Guarded, name: str, scope: str, resource: str) -> None:
    async with admin_calls(guarded, ROOT) as admin:
        fields = {"scope": scope, "resource_name": resource, "binding_id": name}
        await admin("SecurityAdmin/DeleteBinding", **fields)


async def test_a_bound_principal_may_publish_there_and_not_elsewhere(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name)
    other = f"{topic}-other"
    for each in (topic, other):
        await guarded.root.admin("topic.create", {"topic": each})
    assert await outcomes(guarded, token, topic) == NONE
    await bind(guarded, name, "topic", topic, "Produce", "Lookup", "Replicate")
    assert await outcomes(guarded, token, topic) == ALL
    assert await outcomes(guarded, token, other) == NONE
    await unbind(guarded, name, "topic", topic)
    assert await outcomes(guarded, token, topic) == NONE


async def test_a_connected_client_loses_what_a_deleted_binding_allowed(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"consume:{topic}")
    await bind(guarded, name, "namespace", "default", "Produce")
    async with guarded.connect(token) as client, Calls(guarded.grpc_url, token) as calls:
        producer = client.producer(topic)
        await producer.open()
        await (await producer.send(b"allowed"))
        assert await calls.producer(topic)
        assert await status_of(calls.send(topic, b"allowed")) is Code.OK
        await unbind(guarded, name, "namespace", "default")
        with pytest.raises(Refused, match="may not do this"):
            await send_for_ever(producer)
        assert await status_of(calls.send(topic, b"not any more")) is Code.PERMISSION_DENIED
        # What it has by a grant of its own it keeps.
        async with client.consumer(topic, "s", start=Start.earliest()) as consumer:
            assert (await consumer.receive(PATIENCE)).payload == b"allowed"


async def test_changing_or_deleting_a_role_applies_immediately(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name)
    await guarded.root.admin("topic.create", {"topic": topic})
    await bind(guarded, name, "cluster", "", "Produce", "Lookup")
    assert await outcomes(guarded, token, topic) == ALL
    role = {"role": name, "permissions": ["Consume"]}
    await guarded.root.admin("role.create", role)
    assert await outcomes(guarded, token, topic) == [False, False, False, True]
    await guarded.root.admin("role.delete", {"role": name})
    assert await outcomes(guarded, token, topic) == NONE


async def test_a_json_web_token_must_match_the_bound_principal_type(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = json_web_token(name)
    await guarded.root.admin("topic.create", {"topic": topic})
    await bind(guarded, name, "topic", topic, "Produce", "Lookup")
    assert await outcomes(guarded, token, topic) == ALL
    arguments = {
        "binding": name,
        "principal": name,
        "principal_type": "user",
        "roles": [name],
        "scope": "topic",
        "resource": topic,
    }
    await guarded.root.admin("binding.create", arguments)
    assert await outcomes(guarded, token, topic) == NONE


async def test_a_deleted_principal_loses_its_bindings(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    await bind(guarded, name, "topic", topic, "Produce", "Lookup")
    await guarded.root.admin("principal.delete", {"principal": name})
    assert await outcomes(guarded, json_web_token(name), topic) == NONE
    assert await outcomes(guarded, await guarded.token(name), topic) == NONE


async def test_only_cluster_administrators_create_roles_and_bindings(
    guarded: Guarded, name: str
) -> None:
    role = {"name": name, "permissions": ["Lookup"]}
    for grants, code in (
        (["admin:/default/*", "topics:*", "brokers:*"], Code.PERMISSION_DENIED),
        (["cluster:*"], Code.OK),
    ):
        async with admin_calls(guarded, await guarded.token(name, *grants)) as admin:
            assert await status_of(admin("SecurityAdmin/CreateRole", role=role)) is code
            assert await status_of(admin("SecurityAdmin/ListAllBindings")) is code
    async with admin_calls(guarded, "") as admin:
        assert await status_of(admin("SecurityAdmin/ListRoles")) is Code.UNAUTHENTICATED


async def test_a_lookup_without_other_rights_creates_no_topic(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name)
    await bind(guarded, name, "namespace", "default", "Lookup")
    async with guarded.connect(token) as client:
        with pytest.raises(NotFound):
            await client.producer(topic).open()
        with pytest.raises(NotFound):
            await client.admin("topic.describe", {"topic": topic})
        await guarded.root.admin("topic.create", {"topic": topic})
        assert (await client.admin("topic.describe", {"topic": topic}))["topic"] == topic
        with pytest.raises(Refused, match=f"produce on {topic}"):
            await client.producer(topic).open()


async def test_http_lists_all_rights_of_a_principal_with_their_source(
    guarded: Guarded, topic: str, name: str
) -> None:
    await bind(guarded, name, "topic", topic, "Produce", "ManageBroker")
    rows = await guarded.http.ok("GET", "/api/v1/principals", headers=bearer(ROOT))
    [row] = [row for row in rows if row["principal"] == name]
    assert (row["grants"], row["created_us"]) == ([], None)
    [bound] = row["bindings"]
    assert bound["roles"] == [name] and bound["grants"] == [f"produce:{topic}"]
    path = f"/api/v1/bindings/topic/{name}"
    headers = bearer(ROOT)
    found = await guarded.http.ok("GET", f"{path}?resource={topic}", headers=headers)
    assert found["principal"] == name
    await guarded.http.ok("DELETE", f"{path}?resource={topic}", headers=headers)
    (await guarded.http("GET", f"{path}?resource={topic}", headers=headers)).problem(
        404, "not-found"
    )


ORDERS = "/default/orders"
NAMESPACE = Need(Action.NAMESPACES, "/default/*")
TOPICS = Need(Action.NAMESPACES, "/default/*", instead=Action.TOPICS)
CLUSTER = Need(Action.CLUSTER, "*")
BROKERS = Need(Action.BROKERS, "*")
NOW_US = int(time.time() * 1_000_000)
JWT = JwtSettings(JWT_KEY)


def somebody(*grants: str) -> Access:
    return Access("somebody", tuple(Grant.parse(each) for each in grants))


@pytest.mark.parametrize(
    ("grant", "need", "covered"),
    [
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, ORDERS), True),
        (f"produce:{ORDERS}", of_topic(Action.CONSUME, ORDERS), False),
        (f"produce:{ORDERS}", of_topic(None, ORDERS), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-12"), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-0"), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-4095"), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-4096"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-x"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-007"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-\u0663"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-1\n"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}2"), False),
        ("produce:/default/*", of_topic(Action.PRODUCE, ORDERS), True),
        ("produce:/default/*", of_topic(Action.PRODUCE, "/defaulted/orders"), False),
        ("produce:*", of_topic(Action.PRODUCE, ORDERS), True),
        ("produce:*", of_topic(Action.ADMIN, ORDERS), False),
        (f"admin:{ORDERS}", of_topic(Action.CONSUME, ORDERS), True),
        (f"admin:{ORDERS}", NAMESPACE, False),
        ("admin:/default/*", NAMESPACE, True),
        ("admin:/default/*", Need(Action.ADMIN, "*"), False),
        ("admin:*", Need(Action.ADMIN, "*"), True),
        ("schemas:orders", Need(Action.SCHEMAS, "orders"), True),
        ("schemas:orders", Need(Action.SCHEMAS, "others"), False),
        (f"schemas:{ORDERS}", of_topic(None, ORDERS), False),
        ("admin:/default/*", Need(Action.SCHEMAS, "/default/orders"), False),
        ("admin:*", Need(Action.SCHEMAS, "orders"), True),
        ("schemas:/default/*", Need(Action.SCHEMAS, ORDERS), True),
        ("schemas:/default/*", Need(Action.SCHEMAS, "orders"), False),
        ("lookup:orders", Need(None, "orders"), True),
        ("lookup:orders", Need(Action.SCHEMAS, "orders"), False),
        (f"lookup:{ORDERS}", of_topic(None, ORDERS), True),
        ("lookup:*", of_topic(Action.CONSUME, ORDERS), False),
        (f"topics:{ORDERS}", of_topic(Action.TOPICS, f"{ORDERS}-part-1"), True),
        ("topics:*", of_topic(Action.PRODUCE, ORDERS), False),
        ("topics:*", of_topic(Action.CONSUME, ORDERS), False),
        ("topics:/default/*", NAMESPACE, False),
        ("topics:/default/*", TOPICS, True),
        (f"topics:{ORDERS}", TOPICS, False),
        ("namespaces:/default/*", TOPICS, True),
        ("namespaces:/default/*", Need(Action.NAMESPACES, "/other/*"), False),
        ("namespaces:*", of_topic(None, ORDERS), False),
        ("cluster:*", CLUSTER, True),
        ("cluster:*", BROKERS, False),
        ("cluster:*", of_topic(None, ORDERS), False),
        ("cluster:*", Need(Action.ADMIN, ORDERS), False),
        ("brokers:*", BROKERS, True),
        ("brokers:*", CLUSTER, False),
        ("admin:*", CLUSTER, True),
        ("admin:/default/*", BROKERS, False),
    ],
)
def test_a_grant_covers_what_it_says_and_nothing_else(
    grant: str, need: Need, covered: bool
) -> None:
    assert somebody(grant).allows(need) is covered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "produce",
        "own:/default/x",
        "produce:",
        "consume:/default",
        "admin:/a/b/c",
        "cluster:/a/*",
        "brokers:/a/b",
        "namespaces:/a/b",
    ],
)
def test_an_invalid_grant_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        Grant.parse(text)


def test_a_denial_says_what_is_missing_and_how_to_get_it() -> None:
    with pytest.raises(Denied, match=f"sulina security grant somebody produce:{ORDERS}"):
        somebody().check(of_topic(Action.PRODUCE, ORDERS))


def test_operations_that_do_not_exist_are_for_administrators() -> None:
    with pytest.raises(Denied):
        authorize(somebody("admin:/default/*", "produce:*"), "made.up", {"topic": ORDERS})
    authorize(somebody("admin:*"), "made.up", {})


def test_reading_a_policy_takes_less_than_changing_it() -> None:
    consumer = somebody(f"consume:{ORDERS}")
    authorize(consumer, "topic.policy", {"topic": ORDERS})
    with pytest.raises(Denied):
        authorize(consumer, "topic.policy", {"topic": ORDERS, "retention_ms": 1})


def test_dead_letters_need_the_right_to_publish() -> None:
    owner = somebody(f"admin:{ORDERS}")
    arguments = {"topic": ORDERS, "subscription": "s", "dead_letter_topic": "/other/letters"}
    with pytest.raises(Denied, match="produce on /other/letters"):
        authorize(owner, "subscription.policy", arguments)


def test_only_brokers_may_mark_a_call_as_forwarded() -> None:
    with pytest.raises(Denied):
        authorize(somebody("admin:*"), "topic.list", {FORWARDED: True})
    authorize(ANYONE, "topic.list", {FORWARDED: True})


def test_a_good_json_web_token_names_its_principal() -> None:
    assert read_jwt(json_web_token("billing"), JWT, NOW_US).principal == "billing"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (json_web_token("x", key=b"another key"), "another key"),
        (json_web_token("x", algorithm="none"), "HS256"),
        (json_web_token("x", algorithm="RS256"), "HS256"),
        (json_web_token("x")[:-2], "another key|read"),
        ("a.b.c", "another key|read"),
        ("..", "another key|read"),
        ("é.b.c", "too long"),
    ],
)
def test_an_invalid_json_web_token_is_refused_with_the_reason(token: str, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        read_jwt(token, JWT, NOW_US)


def test_an_expired_json_web_token_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="expired"):
        read_jwt(json_web_token("x", seconds=60), JWT, 1 << 60)


def test_secrets_that_can_be_guessed_are_refused() -> None:
    with pytest.raises(Refused):
        AuthSettings("short")
    with pytest.raises(Refused, match=r"at least 16 bytes, and this one has 15.*openssl rand"):
        JwtSettings(b"your-secret-key")  # in the sample configuration of Danube
