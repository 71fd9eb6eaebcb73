"""What is served is what Danube's tools expect, and reflection says so."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_schema import danube_schema_pb2 as schema_pb
from broker_containers.doors.grpc_shared.called_operations import operation_of
from sulina.operations.operation_list import OPERATIONS
from tests.danube_admin import wire
from tests.danube_admin.client import SECONDS, AdminClient

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
