"""The schema registry's operations: by the command line, and as Danube's clients call them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.danube_schema import danube_schema_pb2 as pb
from broker_containers.doors.danube_schema.service import schema_methods
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.calls import CallGuard
from broker_containers.doors.listen import Listen
from broker_containers.operations.running import Operations
from broker_containers.operations.schemas import SchemaHandlers
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.registry import SchemaRegistry, open_registry
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.schemas.json_shapes import NAME, NAME_AND_AGE, NAME_AS_NUMBER, record, text
from tests.support.shell import CommandResult, Shell


@pytest.fixture
async def server(tmp_path: Path, store: MetadataStore) -> AsyncIterator[RunningBroker]:
    async with run_embedded(tmp_path / "data", DoorSettings(Listen(port=0))) as server:
        server.services.operations.serve(
            SchemaHandlers(_schemas(open_registry(store, RealClock())))
        )
        yield server


def _schemas(registry: SchemaRegistry) -> SchemaChecks:
    return SchemaChecks(registry, registry.topics.store)


def _operations(registry: SchemaRegistry) -> Operations:
    operations = Operations()
    operations.serve(SchemaHandlers(_schemas(registry)))
    return operations


class Lines:
    """The command line of that broker, and files for it."""

    def __init__(self, shell: Shell, url: str, folder: Path) -> None:
        self._shell = shell
        self._url = url
        self._folder = folder

    async def __call__(self, *words: str, code: int = 0, input: str = "") -> CommandResult:
        return await self._shell("--url", self._url, *words, code=code, input=input)

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return str(path)


@pytest.fixture(scope="module")
def process() -> Iterator[Shell]:
    with Shell() as running:
        yield running


@pytest.fixture
def shell(process: Shell, server: RunningBroker, tmp_path: Path) -> Lines:
    return Lines(process, server.addresses.url, tmp_path)


async def test_the_command_line_registers_lists_and_prints_schemas(shell: Lines) -> None:
    file = shell.file("user.json", NAME)
    ran = await shell("schema", "register", "users", file, "--tag", "core", "--by", "ops")
    assert ran.stdout == "users version 1 (id 1): registered\n"
    ran = await shell("schema", "register", "users", file)
    assert ran.stdout == "users version 1 (id 1): already registered\n"
    [row] = (await shell("schema", "list", "--json")).json()
    assert row == {
        "subject": "users", "id": 1, "type": "json_schema", "latest": 1, "versions": 1,
        "compatibility": "backward", "tags": ["core"],
    }  # fmt: skip
    assert json.loads((await shell("schema", "get", "users")).stdout) == NAME
    assert "ops" in (await shell("schema", "versions", "users")).stdout


async def test_the_command_line_tells_what_breaks(shell: Lines) -> None:
    await shell("schema", "register", "users", shell.file("v1.json", NAME))
    wrong = shell.file("v2.json", NAME_AS_NUMBER)
    ran = await shell("schema", "check", "users", "missing.txt", code=2)
    assert "missing.txt does not exist" in ran.stderr
    ran = await shell("schema", "check", "users", wrong, code=1)
    assert ran.stdout == (
        "it cannot read data of version 1: name: string cannot be read as integer\n"
    )
    assert "not compatible" in (await shell("schema", "register", "users", wrong, code=1)).stderr
    fine = await shell("schema", "check", "users", wrong, "--mode", "none")
    assert fine.stdout == "compatible with users\n"
    await shell("schema", "compatibility", "users", "none")
    await shell("schema", "register", "users", wrong)
    shown = (await shell("schema", "compatibility", "users", "--json")).json()
    assert shown == {"subject": "users", "compatibility": "none"}
    await shell("schema", "delete", "users", "--version", "1", "--yes")
    assert len((await shell("schema", "versions", "users", "--json")).json()) == 1
    await shell("schema", "delete", "users", "--yes")
    assert "no schemas" in (await shell("schema", "list")).stdout


async def test_the_command_line_asks_for_what_it_can_not_guess(shell: Lines) -> None:
    ran = await shell("schema", "register", "users", code=2)
    assert "--type" in ran.stderr
    ran = await shell("schema", "register", "users", "-", code=2, input="{}")
    assert "give --type" in ran.stderr
    ran = await shell("schema", "register", "users", "-", "--type", "avro", input='"string"')
    assert "registered" in ran.stdout
    await shell("schema", "register", "numbers", "--type", "number")
    assert "no schema subject" in (await shell("schema", "get", "nobody", code=1)).stderr


async def test_definitions_are_any_bytes_and_wrong_arguments_are_refused(
    registry: SchemaRegistry,
) -> None:
    run = _operations(registry).run
    order = json.dumps(record()).encode()
    encoded = base64.b64encode(order).decode()
    made = await run(
        "schema.register", {"subject": "orders", "type": "avro", "definition_base64": encoded}
    )
    assert made["version"] == 1
    found = await run("schema.lookup", {"id": made["id"]})
    assert found["definition"] == order.decode() and found["compatibility"] == "backward"
    for method, arguments in (
        ("schema.register", {"subject": "x"}),
        ("schema.register", {"subject": "x", "type": "avro", "definition_base64": "?"}),
        ("schema.register", {"subject": "x", "type": "avro", "definition": {}}),
        ("schema.register", {"subject": "x", "type": "string", "tags": "t"}),
        ("schema.check", {"subject": "orders", "type": "string", "compatibility": "x"}),
        ("schema.lookup", {"id": "x"}),
        ("schema.lookup", {}),
        ("schema.bind", {"topic": "orders", "subject": "orders"}),
    ):
        with pytest.raises(Refused):
            await run(method, arguments)
    with pytest.raises(NotFound):
        await run("schema.topic", {"topic": "/default/none"})


async def test_a_topic_is_bound_and_changed_in_part(
    registry: SchemaRegistry, store: MetadataStore
) -> None:
    await topic_lifecycle.create(store, TopicName.parse("/default/users"), TopicRecord())
    run = _operations(registry).run
    topic = {"topic": "/default/users"}
    free = {**topic, "subject": None, "validation": "none", "payload": False}
    assert await run("schema.topic", topic) == free
    with pytest.raises(Refused, match="subject is missing"):
        await run("schema.bind", {**topic, "validation": "warn"})
    await registry.register("users", "json", json.dumps(NAME_AND_AGE).encode())
    bound = await run("schema.bind", {**topic, "subject": "users"})
    assert bound == {**topic, "subject": "users", "validation": "warn", "payload": False}
    changed = await run("schema.bind", {**topic, "validation": "enforce", "payload": True})
    assert changed == {**topic, "subject": "users", "validation": "enforce", "payload": True}
    assert await run("schema.topic", topic) == changed


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
async def danube(registry: SchemaRegistry, tmp_path: Path) -> AsyncIterator[Danube]:
    """A broker's admin port, with the registry of these tests."""
    doors = DoorSettings(Listen(port=0), danube_admin=AdminListen(port=0))
    async with run_embedded(tmp_path / "data", doors) as running:
        services, admin = running.services, running.danube_admin
        assert admin is not None
        callers = Callers(services.authority, services.audit, "danube_admin")
        guard = CallGuard(callers, services.operations, services.requests)
        admin.grpc.add(schema_methods(_schemas(registry), guard))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{admin.port}") as channel:
            yield Danube(channel)


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
    assert all(each.compatibility_mode == "BACKWARD" and each.schema_id for each in found.subjects)


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
