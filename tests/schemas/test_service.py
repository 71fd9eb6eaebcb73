"""Danube's schema registry over gRPC, as its clients call it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from broker_containers.doors.danube_schema import danube_schema_pb2 as pb
from broker_containers.doors.danube_schema.service import add_to
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.calls import CallGuard
from broker_containers.metrics.requests import RequestCounts
from broker_containers.operations.running import Operations
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.security.authority import Authority
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from tests.schemas.shapes import NAME, NAME_AND_AGE, NAME_AS_NUMBER, text

SECONDS = 30.0
Code = grpc.StatusCode


class Danube:
    """Calls methods by their names, as generated code does."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def __call__(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self._channel.unary_unary(
            f"/danube_schema.SchemaRegistry/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=SECONDS)

    async def register(self, subject: str, definition: Any, kind: str = "json_schema") -> Any:
        request = pb.RegisterSchemaRequest(
            subject=subject, schema_type=kind, schema_definition=text(definition), tags=["t"]
        )
        return await self("RegisterSchema", request, pb.RegisterSchemaResponse)

    async def refused(self, method: str, request: Any, code: Code) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self(method, request, pb.GetSchemaResponse)
        assert caught.value.code() is code, caught.value
        return caught.value.details() or ""


@pytest.fixture
async def danube(registry: SchemaRegistry) -> AsyncIterator[Danube]:
    server = grpc.aio.server()
    callers = Callers(Authority(registry.topics.store, registry.clock, None), "danube")
    add_to(server, registry, CallGuard(callers, Operations(), RequestCounts()))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Danube(channel)
    await server.stop(None)


async def test_schemas_are_registered_and_found(danube: Danube) -> None:
    first = await danube.register("users", NAME)
    second = await danube.register("users", NAME_AND_AGE)
    again = await danube.register("users", NAME)
    assert (first.version, second.version, again.version) == (1, 2, 1)
    assert first.is_new_version and not again.is_new_version
    assert first.schema_id == second.schema_id == again.schema_id > 0
    latest = await danube(
        "GetLatestSchema", pb.GetLatestSchemaRequest(subject="users"), pb.GetSchemaResponse
    )
    assert latest.version == 2 and latest.schema_definition == text(NAME_AND_AGE)
    assert latest.schema_type == "json_schema" and latest.compatibility_mode == "backward"
    assert latest.created_at > 1_000_000_000 and list(latest.tags) == ["t"]
    assert latest.fingerprint.startswith("sha256:")
    for request, version in (
        (pb.GetSchemaRequest(schema_id=first.schema_id), 2),
        (pb.GetSchemaRequest(schema_id=first.schema_id, version=1), 1),
    ):
        assert (await danube("GetSchema", request, pb.GetSchemaResponse)).version == version
    versions = await danube(
        "ListVersions", pb.ListVersionsRequest(subject="users"), pb.ListVersionsResponse
    )
    assert [each.version for each in versions.versions] == [1, 2]
    assert {each.schema_id for each in versions.versions} == {first.schema_id}


async def test_subjects_are_listed(danube: Danube) -> None:
    await danube.register("users", NAME)
    await danube.register("users", NAME_AND_AGE)
    await danube.register("lines", "", "string")
    found = await danube("ListSubjects", pb.ListSubjectsRequest(), pb.ListSubjectsResponse)
    assert [(each.subject, each.schema_type, each.latest_version) for each in found.subjects] == [
        ("lines", "string", 1),
        ("users", "json_schema", 2),
    ]
    assert all(each.compatibility_mode == "backward" and each.schema_id for each in found.subjects)


async def test_compatibility_is_checked_set_and_enforced(danube: Danube) -> None:
    await danube.register("users", NAME)
    request = pb.CheckCompatibilityRequest(
        subject="users", schema_type="json_schema", new_schema_definition=text(NAME_AS_NUMBER)
    )
    answer = await danube("CheckCompatibility", request, pb.CheckCompatibilityResponse)
    assert not answer.is_compatible and "string cannot be read as integer" in answer.errors[0]
    request.compatibility_mode = "NONE"
    answer = await danube("CheckCompatibility", request, pb.CheckCompatibilityResponse)
    assert answer.is_compatible and not answer.errors
    wrong = pb.RegisterSchemaRequest(
        subject="users", schema_type="json", schema_definition=text(NAME_AS_NUMBER)
    )
    why = await danube.refused("RegisterSchema", wrong, Code.FAILED_PRECONDITION)
    assert why.startswith("Schema is not compatible with subject 'users' (mode: backward)")
    set_ = pb.SetCompatibilityModeRequest(subject="users", compatibility_mode="none")
    done = await danube("SetCompatibilityMode", set_, pb.SetCompatibilityModeResponse)
    assert done.success and done.message
    assert (await danube.register("users", NAME_AS_NUMBER)).version == 2


async def test_a_version_is_deleted(danube: Danube) -> None:
    await danube.register("users", NAME)
    await danube.register("users", NAME_AND_AGE)
    request = pb.DeleteSchemaVersionRequest(subject="users", version=1)
    done = await danube("DeleteSchemaVersion", request, pb.DeleteSchemaVersionResponse)
    assert done.success
    await danube.refused("DeleteSchemaVersion", request, Code.NOT_FOUND)


async def test_a_topic_is_bound_and_its_policy_changed(
    danube: Danube, store: MetadataStore
) -> None:
    await topic_lifecycle.create(store, TopicName.parse("/default/orders"), TopicRecord())
    made = await danube.register("orders", NAME)
    name = "/default/orders"
    ask = pb.GetTopicSchemaConfigRequest(topic_name=name)
    before = await danube("GetTopicSchemaConfig", ask, pb.GetTopicSchemaConfigResponse)
    assert (before.schema_subject, before.validation_policy, before.schema_id) == ("", "none", 0)
    update = pb.UpdateTopicValidationPolicyRequest(topic_name=name, validation_policy="warn")
    await danube.refused("UpdateTopicValidationPolicy", update, Code.FAILED_PRECONDITION)
    bind = pb.ConfigureTopicSchemaRequest(
        topic_name=name,
        schema_subject="orders",
        validation_policy="Enforce",
        enable_payload_validation=True,
    )
    done = await danube("ConfigureTopicSchema", bind, pb.ConfigureTopicSchemaResponse)
    assert done.success and "orders" in done.message
    after = await danube("GetTopicSchemaConfig", ask, pb.GetTopicSchemaConfigResponse)
    assert (after.schema_subject, after.validation_policy) == ("orders", "enforce")
    assert after.enable_payload_validation and after.schema_id == made.schema_id
    await danube("UpdateTopicValidationPolicy", update, pb.UpdateTopicValidationPolicyResponse)
    after = await danube("GetTopicSchemaConfig", ask, pb.GetTopicSchemaConfigResponse)
    assert (after.validation_policy, after.enable_payload_validation) == ("warn", False)


async def test_wrong_requests_have_the_statuses_that_clients_expect(danube: Danube) -> None:
    await danube.register("users", NAME)
    for method, request, code in (
        ("GetSchema", pb.GetSchemaRequest(schema_id=99), Code.NOT_FOUND),
        ("GetLatestSchema", pb.GetLatestSchemaRequest(subject="nobody"), Code.NOT_FOUND),
        ("ListVersions", pb.ListVersionsRequest(subject="nobody"), Code.NOT_FOUND),
        (
            "CheckCompatibility",
            pb.CheckCompatibilityRequest(subject="nobody", schema_type="string"),
            Code.NOT_FOUND,
        ),
        (
            "CheckCompatibility",
            pb.CheckCompatibilityRequest(
                subject="users", schema_type="string", compatibility_mode="sideways"
            ),
            Code.INVALID_ARGUMENT,
        ),
        (
            "SetCompatibilityMode",
            pb.SetCompatibilityModeRequest(subject="users", compatibility_mode="sideways"),
            Code.INVALID_ARGUMENT,
        ),
        (
            "RegisterSchema",
            pb.RegisterSchemaRequest(subject="x", schema_type="avro", schema_definition=b"{"),
            Code.INVALID_ARGUMENT,
        ),
        ("RegisterSchema", pb.RegisterSchemaRequest(schema_type="string"), Code.INVALID_ARGUMENT),
        (
            "GetTopicSchemaConfig",
            pb.GetTopicSchemaConfigRequest(topic_name="/default/none"),
            Code.NOT_FOUND,
        ),
        (
            "GetTopicSchemaConfig",
            pb.GetTopicSchemaConfigRequest(topic_name="nonsense"),
            Code.INVALID_ARGUMENT,
        ),
        (
            "ConfigureTopicSchema",
            pb.ConfigureTopicSchemaRequest(topic_name="/default/none", validation_policy="maybe"),
            Code.INVALID_ARGUMENT,
        ),
    ):
        assert await danube.refused(method, request, code)
