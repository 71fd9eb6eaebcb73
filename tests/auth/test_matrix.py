"""Every operation at every door by every kind of caller: allowed or refused, and recorded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from broker_containers.audit.trail import AuditSettings
from broker_containers.doors.danube_admin import danube_admin_pb2
from broker_containers.doors.danube_schema import danube_schema_pb2
from broker_containers.doors.grpc_shared.called_operations import operation_of
from broker_containers.doors.http.routes import ENDPOINTS
from broker_containers.security import throttle
from sulina import Client
from sulina.audit import AuditEvent, AuditRecord
from sulina.errors import Refused, Retriable
from sulina.wire import commands_pb2 as wire
from sulina.wire.commands import Command, pack
from tests.auth.broker import Guarded, bearer, guarded_broker
from tests.auth.matrix import NAMES, Probe, allowed, probes, roles
from tests.auth.test_strangers import PATIENCE, dial, hello, reply
from tests.http.test_table import call

ALLOWED, DENIED, UNAUTHENTICATED = "allowed", "denied", "unauthenticated"
PROBES = list(probes())
AT_ONCE = 16
_OF_STATUS = {
    grpc.StatusCode.UNAUTHENTICATED: UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: DENIED,
    grpc.StatusCode.UNKNOWN: "failed",
    grpc.StatusCode.INTERNAL: "failed",
    grpc.StatusCode.DEADLINE_EXCEEDED: "failed",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One call at one door."""

    door: str
    probe: Probe
    call: Callable[[], Awaitable[str]]


# ---- the doors ----


async def by_client(client: Client, probe: Probe) -> str:
    try:
        await client.admin(probe.operation, probe.arguments)
    except (Refused, Retriable) as error:
        return DENIED if "may not" in str(error) else ALLOWED
    return ALLOWED


async def by_http(guarded: Guarded, token: str, probe: Probe) -> str:
    declared = probe.declared
    assert declared is not None
    reading = declared.read is not None and declared.only_reads(probe.arguments)
    route = declared.read if reading and declared.read is not None else declared.http
    [endpoint] = [
        each for each in ENDPOINTS if each.operation is declared and each.verb == route.verb
    ]
    headers = bearer(token) if token else None
    answer = await call(guarded.http, endpoint, dict(probe.arguments), headers=headers)
    for status, kind in ((401, UNAUTHENTICATED), (403, DENIED)):
        if answer.status == status:
            answer.problem(status, kind)
            return kind
    return ALLOWED if answer.status != 500 else answer.text


async def by_grpc(channel: grpc.aio.Channel, token: str, path: str, request: bytes) -> str:
    unary: Any = channel.unary_unary(path)
    shown = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        await unary(request, timeout=PATIENCE, metadata=shown)
    except grpc.aio.AioRpcError as error:
        return _OF_STATUS.get(error.code(), ALLOWED)
    return ALLOWED


def grpc_cells(
    door: str, channel: grpc.aio.Channel, token: str, service: ServiceDescriptor
) -> list[Cell]:
    """Every method of a service, about the same things as the probes."""
    cells = []
    for method in service.methods:
        request = GetMessageClass(method.input_type)(**_fields(method.input_type))
        probe = Probe(*operation_of(method.name, request))
        path = f"/{service.full_name}/{method.name}"
        send = partial(by_grpc, channel, token, path, request.SerializeToString())
        cells.append(Cell(door, probe, send))
    return cells


def _fields(kind: Descriptor) -> dict[str, str]:
    topic = NAMES["topic"]
    names = {**NAMES, "name": topic, "base_name": topic, "topic_name": topic, "scope": "cluster"}
    if kind.name == "NamespaceRequest":
        names["name"] = NAMES["namespace"]
    texts = [each.name for each in kind.fields if each.type == each.TYPE_STRING]
    return {name: names[name] for name in texts if name in names}


async def cells_of(guarded: Guarded, token: str, stack: AsyncExitStack) -> AsyncIterator[Cell]:
    """Every operation at every door but the binary one."""
    for probe in PROBES:
        yield Cell("http", probe, partial(by_http, guarded, token, probe))
    admin, danube = [
        await stack.enter_async_context(grpc.aio.insecure_channel(place))
        for place in (f"127.0.0.1:{guarded.admin_port}", guarded.grpc_url.partition("://")[2])
    ]
    registry = danube_schema_pb2.DESCRIPTOR.services_by_name["SchemaRegistry"]
    for service in (*danube_admin_pb2.DESCRIPTOR.services_by_name.values(), registry):
        for cell in grpc_cells("danube_admin", admin, token, service):
            yield cell
    for cell in grpc_cells("danube", danube, token, registry):
        yield cell


# ---- the matrix ----


async def outcomes(cells: list[Cell]) -> list[str]:
    free = asyncio.Semaphore(AT_ONCE)

    async def run(cell: Cell) -> str:
        async with free:
            return await cell.call()

    return await asyncio.gather(*map(run, cells))


async def audit_records(guarded: Guarded) -> list[AuditRecord]:
    """The whole trail, once all that was noted is written."""
    async with asyncio.timeout(PATIENCE):
        while guarded.server.services.audit.writer.waiting:
            await asyncio.sleep(0.01)
    found: list[AuditRecord] = []
    offset, at_end = 0, False
    while not at_end:
        page = await guarded.root.admin.audit.list(offset=offset, limit=1000)
        found += [row.record for row in page.records if row.record is not None]
        offset, at_end = page.next_offset, page.at_end
    return found


@pytest.mark.parametrize("denying", [False, True], ids=["grants", "deny rules"])
async def test_every_operation_at_every_door_by_every_role(tmp_path: Path, denying: bool) -> None:
    expected: set[tuple[AuditEvent, str, str, str, str]] = set()
    wrong: list[str] = []
    count: Counter[str] = Counter()
    settings = AuditSettings(different_events=1 << 20)
    async with guarded_broker(tmp_path, audit=settings) as guarded:
        for number, role in enumerate(each for each in roles() if bool(each.denied) is denying):
            name = f"role-{number}"
            token = await guarded.token(name)
            if role.rules:
                await guarded.root.admin.principals.grant(name, role.rules)
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(guarded.connect(token))
                cells = [Cell("binary", each, partial(by_client, client, each)) for each in PROBES]
                cells += [each async for each in cells_of(guarded, token, stack)]
                for cell, outcome in zip(cells, await outcomes(cells), strict=True):
                    probe, may = cell.probe, allowed(role, cell.probe)
                    count[outcome] += 1
                    if outcome != (ALLOWED if may else DENIED):
                        wrong.append(f"{cell.door}: {probe} with {role} is {outcome}")
                    if probe.changes or not may:
                        event = AuditEvent.ACT if may else AuditEvent.REFUSAL
                        expected.add((event, name, cell.door, probe.operation, probe.resource))
        recorded = {
            (each.event, each.principal, each.door, each.operation, each.resource)
            for each in await audit_records(guarded)
        }
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong[:40]])
    assert not expected - recorded, sorted(expected - recorded)[:40]
    assert min(count[ALLOWED], count[DENIED]) > 500  # nothing was left out


@pytest.mark.parametrize("token", ["", "sulina_x_y"], ids=["no token", "an invalid token"])
async def test_every_operation_at_every_door_by_a_stranger(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_AT_ONCE", 1 << 20)  # no refusal is held back
    async with guarded_broker(tmp_path) as guarded, AsyncExitStack() as stack:
        reader, writer = await dial(guarded)
        writer.write(hello(token))
        for number, each in enumerate(PROBES, 2):  # without waiting for the answer to the token
            body = wire.Admin(method=each.operation, arguments=json.dumps(each.arguments).encode())
            writer.write(pack(Command.ADMIN, number, body))
        with suppress(ConnectionError):  # closed with unread requests, a connection may be reset
            assert isinstance((await reply(reader)).body, wire.Error)
            assert await reader.read() == b""
        writer.close()
        cells = [each async for each in cells_of(guarded, token, stack)]
        found = zip(cells, await outcomes(cells), strict=True)
        assert [each for each in found if each[1] != UNAUTHENTICATED] == []
        records = await audit_records(guarded)
    refusing = {each.door for each in records if each.event is AuditEvent.REFUSAL}
    assert refusing == {"binary", "http", "danube", "danube_admin"}
    assert not [each for each in records if each.event is AuditEvent.ACT]
