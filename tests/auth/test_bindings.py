"""Roles and bindings, created by Danube's admin services, apply at every door."""

from __future__ import annotations

import grpc
import pytest

from sulina import Start
from sulina.errors import NotFound, Refused
from tests.auth.broker import ROOT, Guarded, bearer, json_web_token
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
