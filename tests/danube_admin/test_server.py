"""The server: port, TLS, limits, deadlines, shutdown; it serves what Danube's tools expect."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.commands.listening import danube_admin_listen
from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.settings import AdminListen, AdminSettings
from broker_containers.doors.danube_schema import danube_schema_pb2 as schema_pb
from broker_containers.doors.grpc_shared.called_operations import operation_of
from broker_containers.doors.listen import Listen
from sulina.errors import (
    AlreadyExists,
    Closed,
    CorruptEntry,
    Fenced,
    NotFound,
    Overloaded,
    Refused,
    Retriable,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)
from sulina.operations.operation_list import OPERATIONS
from sulina.operations.topics import NamespaceOperations
from tests.cli.runner import SulinaCommand
from tests.danube_admin import wire
from tests.danube_admin.client import SECONDS, AdminClient, admin_client
from tests.support.server import SulinaProcess
from tests.support.tls import server_tls

PATIENCE = 60.0
METHOD = "BrokerAdmin/ListNamespaces"


@asynccontextmanager
async def running(
    folder: Path, listen: AdminListen | None = None
) -> AsyncIterator[tuple[RunningBroker, AdminClient]]:
    """A broker in this process, and a client of its admin door."""
    door = listen or AdminListen(port=0)
    async with run_embedded(folder, DoorSettings(Listen(port=0), danube_admin=door)) as server:
        assert server.addresses.danube_admin_port is not None
        async with admin_client(server.addresses.danube_admin_port) as client:
            yield server, client


async def _until_refused(client: AdminClient) -> None:
    while True:
        await client("BrokerAdmin/GetLeaderBroker")


class Slow:
    """A handler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self) -> tuple[str, ...]:
        self.called.set()
        await self.go_on.wait()
        return ("done",)


async def test_a_broker_has_the_door_only_if_asked(tmp_path: Path) -> None:
    async with run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server:
        assert server.addresses.danube_admin_port is None


def test_without_grpc_a_broker_runs_without_the_door_unless_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "broker_containers.doors.danube_admin.server", None)
    assert danube_admin_listen("127.0.0.1", 0, None, None) is None
    with pytest.raises(Refused, match=r"pip install 'sulina\[all-in-one\]'"):
        danube_admin_listen("127.0.0.1", 0, 50051, None)


def test_the_port_is_danubes_unless_all_ports_are_to_be_free() -> None:
    for wanted, port, used in ((None, 6655, 50051), (None, 0, 0), (7, 0, 7), (0, 6655, 0)):
        listen = danube_admin_listen("127.0.0.1", port, wanted, None)
        assert listen is not None and listen.port == used


async def test_a_taken_port_is_reported_with_the_option(
    shared_sulina_process: SulinaProcess, tmp_path: Path
) -> None:
    taken = str(shared_sulina_process.admin_port)
    nobody = SulinaCommand("sulina://127.0.0.1:1")
    ran = nobody("up", "--data", str(tmp_path), "--port", "0", "--admin-port", taken, code=1)
    assert "--admin-port" in ran.stderr and ran.stderr.count("\n") == 1


async def test_tls_is_served_with_the_brokers_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    listen = AdminListen(port=0, tls=server_tls(certificate))
    trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    async with running(tmp_path, listen) as (server, plain):
        place = f"127.0.0.1:{server.addresses.danube_admin_port}"
        async with grpc.aio.secure_channel(place, trusted) as channel:
            client = AdminClient(channel)
            assert "default" in (await client(METHOD)).namespaces
            [found] = (await client("BrokerAdmin/ListBrokers")).brokers
        assert found.broker_id == "broker-1"
        await plain.refused(grpc.StatusCode.UNAVAILABLE, METHOD)


async def test_a_call_that_takes_too_long_times_out(tmp_path: Path) -> None:
    listen = AdminListen(port=0, settings=AdminSettings(call_seconds=0.05))
    async with running(tmp_path, listen) as (server, client):
        server.services.operations.handle(NamespaceOperations.list, Slow())
        said = await client.refused(grpc.StatusCode.DEADLINE_EXCEEDED, METHOD)
    assert "0.05 s" in said


async def test_calls_beyond_the_limit_are_refused_and_others_continue(tmp_path: Path) -> None:
    slow = Slow()
    listen = AdminListen(port=0, settings=AdminSettings(max_calls=1))
    async with running(tmp_path, listen) as (server, client):
        assert server.addresses.danube_admin_port is not None
        server.services.operations.handle(NamespaceOperations.list, slow)
        first = asyncio.create_task(client(METHOD))
        await slow.called.wait()
        options = [("grpc.use_local_subchannel_pool", 1)]
        place = f"127.0.0.1:{server.addresses.danube_admin_port}"
        async with grpc.aio.insecure_channel(place, options=options) as channel:
            other = AdminClient(channel)
            await other.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "BrokerAdmin/GetLeaderBroker")
        slow.go_on.set()
        assert (await first).namespaces == ["done"]
        assert (await client("BrokerAdmin/GetLeaderBroker")).leader


async def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    listen = AdminListen(port=0, settings=AdminSettings(max_connections=1))
    async with running(tmp_path, listen) as (server, client):
        await client(METHOD)
        place = f"127.0.0.1:{server.addresses.danube_admin_port}"
        alone = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(place, options=alone) as channel:
            await AdminClient(channel).refused(grpc.StatusCode.UNAVAILABLE, METHOD)
        assert (await client(METHOD)).namespaces


async def test_a_request_that_is_too_large_is_refused(tmp_path: Path) -> None:
    listen = AdminListen(port=0, settings=AdminSettings(max_message_bytes=1000))
    async with running(tmp_path, listen) as (_, client):
        await client.refused(
            grpc.StatusCode.INVALID_ARGUMENT, "TopicAdmin/CreateTopic", name="x" * 2000
        )


async def test_a_call_under_way_is_finished_when_the_broker_stops(tmp_path: Path) -> None:
    slow = Slow()
    listen = AdminListen(port=0, settings=AdminSettings(goodbye_seconds=60))
    serving = run_embedded(tmp_path, DoorSettings(Listen(port=0), danube_admin=listen))
    server = await serving.__aenter__()
    assert server.addresses.danube_admin_port is not None
    server.services.operations.handle(NamespaceOperations.list, slow)
    async with admin_client(server.addresses.danube_admin_port) as client:
        call = asyncio.create_task(client(METHOD))
        await slow.called.wait()
        stopping = asyncio.create_task(serving.__aexit__(None, None, None))
        with pytest.raises(grpc.aio.AioRpcError):
            await asyncio.wait_for(_until_refused(client), PATIENCE)
        slow.go_on.set()
        assert (await call).namespaces == ["done"]
        await stopping


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound, grpc.StatusCode.NOT_FOUND),
        (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
        (TooLarge, grpc.StatusCode.INVALID_ARGUMENT),
        (Refused, grpc.StatusCode.FAILED_PRECONDITION),
        (Closed, grpc.StatusCode.UNAVAILABLE),
        (Unavailable, grpc.StatusCode.UNAVAILABLE),
        (Retriable, grpc.StatusCode.UNAVAILABLE),
        (Fenced, grpc.StatusCode.UNAVAILABLE),
        (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (StorageFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (UnknownOutcome, grpc.StatusCode.UNKNOWN),
        (CorruptEntry, grpc.StatusCode.DATA_LOSS),
        (ValueError, grpc.StatusCode.INTERNAL),
    ],
)
async def test_every_kind_of_error_has_a_status(
    tmp_path: Path, error: type[Exception], status: grpc.StatusCode
) -> None:
    async def fail() -> tuple[str, ...]:
        raise error("something is wrong: mend it " + "x" * 100_000)

    async with running(tmp_path) as (server, client):
        server.services.operations.handle(NamespaceOperations.list, fail)
        said = await client.refused(status, METHOD)
    assert ("mend it" in said) == issubclass(error, SulinaError)


SERVICES = {
    *(
        f"danube_admin.{name}Admin"
        for name in ("Broker", "Cluster", "Namespace", "Security", "Topic")
    ),
    "danube_schema.SchemaRegistry",
}
ABSENT = (
    "/danube_admin.ClusterAdmin/AddNode",
    "/danube_admin.ClusterAdmin/PromoteNode",
    "/danube_admin.ClusterAdmin/RemoveNode",
)


def test_our_messages_have_the_numbers_and_types_of_danube() -> None:
    ours = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(ours)
    theirs = wire.described()
    messages = {message.name: message for message in theirs.message_type}
    enums = {enum.name: enum for enum in theirs.enum_type}
    assert ours.package == wire.PACKAGE
    assert ours.message_type and ours.enum_type
    for message in ours.message_type:
        for field in (*message.field, *messages[message.name].field):
            field.ClearField("json_name")
        assert message == messages[message.name]
    for enum in ours.enum_type:
        assert enum == enums[enum.name]


def test_our_methods_are_those_of_danube_except_for_those_not_served() -> None:
    ours = {
        f"{service.name}/{method.name}": (method.input_type.name, method.output_type.name)
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    absent = {path.removeprefix("/danube_admin.") for path in ABSENT}
    served = {name: kinds for name, kinds in wire.methods().items() if name not in absent}
    assert ours == served


def test_every_method_amounts_to_a_declared_operation_with_its_arguments() -> None:
    for file in (pb.DESCRIPTOR, schema_pb.DESCRIPTOR):
        for service in file.services_by_name.values():
            for method in service.methods:
                request: Any = GetMessageClass(method.input_type)()
                for field in ("name", "base_name", "topic", "topic_name"):
                    if field in method.input_type.fields_by_name:
                        setattr(request, field, "default" if "Namespace" in method.name else "a/b")
                name, arguments = operation_of(method.name, request)
                assert arguments.keys() <= OPERATIONS[name].arguments.keys()


@pytest.mark.parametrize("path", ABSENT)
async def test_what_is_not_served_is_refused_with_a_reason(admin: AdminClient, path: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await admin.raw(path)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "Sulina" in str(caught.value.details()) or "broker" in str(caught.value.details())


async def test_a_method_that_danube_lacks_is_unimplemented(admin: AdminClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await admin.raw("/danube_admin.BrokerAdmin/Sing")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_bytes_that_are_not_a_message_are_refused_on_an_open_connection(
    admin: AdminClient,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await admin.raw("/danube_admin.NamespaceAdmin/CreateNamespace", b"\x0a\xff")
    assert (await admin("BrokerAdmin/GetLeaderBroker")).leader == "broker-1"


async def test_reflection_lists_the_services_and_describes_them(admin: AdminClient) -> None:
    call: Any = admin.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="danube_admin.TopicAdmin"),
    ]
    listed, file = [answer async for answer in call(asked, timeout=SECONDS)]
    assert {one.name for one in listed.list_services_response.service} == SERVICES | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    [described] = file.file_descriptor_response.file_descriptor_proto
    assert FileDescriptorProto.FromString(described).package == "danube_admin"


@pytest.mark.parametrize("service", ["", *sorted(SERVICES)])
async def test_every_service_reports_that_it_serves(admin: AdminClient, service: str) -> None:
    question = health_pb2.HealthCheckRequest(service=service)
    answer = await admin.raw("/grpc.health.v1.Health/Check", question.SerializeToString())
    found = health_pb2.HealthCheckResponse.FromString(answer)
    assert found.status == health_pb2.HealthCheckResponse.SERVING
