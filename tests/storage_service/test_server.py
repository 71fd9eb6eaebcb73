"""The service without its appends: Hello, health, reflection, lists, errors and their codes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import LedgerStat
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import MaybeLost
from storage_grpc.remote.wire.codes import (
    CODE_KEY,
    code_of,
    error_of,
    error_of_call,
    status_of,
)
from storage_grpc.remote.wire.service import SERVICE
from sulina import errors
from sulina.errors import (
    CorruptEntry,
    Refused,
    StorageFailed,
    StorageFull,
    SulinaError,
    Unavailable,
    UnknownOutcome,
)
from sulina.runtime.memory_disk import MemoryDisk
from sulina.version import __version__
from tests.storage_service.serving import INCARNATION, linked, open_journal, remote, serving


async def health_of(port: int, service: str = SERVICE) -> int:
    question = health_pb2.HealthCheckRequest(service=service)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/grpc.health.v1.Health/Check"
        )
        answer = await check(question.SerializeToString())
    return health_pb2.HealthCheckResponse.FromString(answer).status


async def test_hello_says_who_is_there_and_what_it_takes() -> None:
    async with (
        serving(may_have_lost=True, max_entry_bytes=777) as server,
        linked(server.port) as link,
    ):
        hello = await link.hello(5)
    assert (hello.id, hello.incarnation, hello.unclean) == ("storage-1", INCARNATION, True)
    assert (hello.version, hello.protocol, hello.writable) == (__version__, 1, True)
    assert hello.max_entry_bytes == 777


async def test_health_is_told_the_standard_way() -> None:
    async with serving() as server:
        for service in ("", SERVICE):
            assert await health_of(server.port, service) == health_pb2.HealthCheckResponse.SERVING


async def test_tools_can_ask_which_services_there_are() -> None:
    async with (
        serving() as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        ask: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        question = reflection_pb2.ServerReflectionRequest
        asked = [question(list_services=""), question(file_containing_symbol=SERVICE)]
        answers = [
            reflection_pb2.ServerReflectionResponse.FromString(answer)
            async for answer in ask(iter([one.SerializeToString() for one in asked]))
        ]
    names = {service.name for service in answers[0].list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    assert len(answers[1].file_descriptor_response.file_descriptor_proto) == 1


async def test_ledgers_are_listed_in_pages() -> None:
    store = MemoryEntryStore()
    for ledger in range(0, 50, 5):
        await store.append(ledger, 0, -1, b"x")
    async with serving(store) as server, linked(server.port) as link, remote(server.port) as node:
        assert await node.ledgers() == list(range(0, 50, 5))
        assert await node.ledgers(after=20) == [25, 30, 35, 40, 45]
        assert await node.ledgers(after=45) == []
        page = await link.ask("List", pb.ListRequest(after=3, limit=2), pb.ListReply)
        assert (list(page.ledgers), page.more) == ([5, 10], True)


async def test_a_ledger_can_be_described() -> None:
    async with serving() as server, remote(server.port) as node:
        assert await node.stat(1) is None
        for entry in (0, 1, 3):
            await node.append(1, entry, entry - 1, b"four")
        await node.fence(1)
        assert await node.stat(1) == LedgerStat(0, 3, 1, 2, True, 12)


@pytest.mark.parametrize("name", ["Read", "RecoveryRead", "Fence", "Delete"])
async def test_a_call_must_say_which_node_it_means(name: str) -> None:
    async with serving() as server, linked(server.port) as link:
        with pytest.raises(Refused, match="names no incarnation"):
            await link.ask_raw(name, pb.FenceRequest(ledger=1))
        with pytest.raises(Unavailable, match="another node"):
            await link.ask_raw(name, pb.FenceRequest(ledger=1), "f" * 32)


async def test_a_node_with_another_disk_never_answers_for_the_one_before() -> None:
    async with AsyncExitStack() as life, AsyncExitStack() as client:
        server = await life.enter_async_context(serving())
        node = await client.enter_async_context(remote(server.port))
        await node.append(1, 0, -1, b"stored")
        await life.aclose()
        await life.enter_async_context(serving(port=server.port, incarnation="e" * 32))
        for _ in range(5):
            with pytest.raises((UnknownOutcome, Unavailable)):
                await node.read(1, 0, max_entries=1, max_bytes=1)
            with pytest.raises((UnknownOutcome, Unavailable)):
                await node.recovery_read(1, 0, max_entries=1, max_bytes=1)
            with pytest.raises((UnknownOutcome, Unavailable)):
                await node.append(1, 1, 0, b"for the one before")
            await asyncio.sleep(0.05)


async def test_a_damaged_entry_is_said_to_be_damaged() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    async with serving(store) as server, remote(server.port) as node:
        await node.append(1, 0, -1, b"a payload that can be found again")
        name = next(name for name in await disk.list() if name.endswith(".log"))
        disk.flip(name, disk.content(name).index(b"found again"))
        with pytest.raises(CorruptEntry):
            await node.read(1, 0, max_entries=1, max_bytes=1)
    await store.close()


async def test_a_full_disk_refuses_appends_and_goes_on_when_there_is_space() -> None:
    disk = MemoryDisk(capacity=3 << 20)
    store = await open_journal(disk)
    async with serving(store) as server, remote(server.port) as node:
        waiting = [node.append(1, n, -1, bytes(100_000)) for n in range(40)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        stored = results.index(next(result for result in results if result is not None))
        assert {type(result) for result in results[stored:]} == {StorageFull}
        assert len(await node.read(1, 0, max_entries=99, max_bytes=1 << 30)) == stored
        assert (await node.fence(2)).lac == -1
        disk.capacity = None
        await node.append(1, stored, -1, bytes(100_000))
    await store.close()


async def test_a_node_whose_disk_failed_says_so_and_still_answers_reads() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)

    async def fail(operation: str, name: str) -> None:
        if operation == "sync":
            raise StorageFailed(f"cannot sync {name}")

    async with serving(store) as server, linked(server.port) as link, remote(server.port) as node:
        await node.append(1, 0, -1, b"stored")
        disk.before = fail
        with pytest.raises(StorageFailed):
            await node.append(1, 1, 0, b"not stored")
        assert not (await link.hello(5)).writable
        assert await health_of(server.port) == health_pb2.HealthCheckResponse.NOT_SERVING
        assert len(await node.read(1, 0, max_entries=1, max_bytes=1)) == 1
    await store.close()


async def test_a_port_that_is_taken_is_refused_with_a_sentence() -> None:
    async with serving() as server:
        with pytest.raises(Refused, match="another process"):
            async with serving(port=server.port):
                pass


async def test_a_call_to_nobody_has_an_unknown_outcome() -> None:
    async with AsyncExitStack() as life:
        server = await life.enter_async_context(serving())
    async with linked(server.port) as link:
        with pytest.raises(UnknownOutcome):
            await link.hello(5)


async def test_closing_the_connection_fails_its_calls_without_cancelling_their_callers() -> None:
    held = asyncio.Event()

    async def hold(operation: str, _: str) -> None:
        if operation == "read":
            held.set()
            await asyncio.Event().wait()

    disk = MemoryDisk()
    store = await open_journal(disk)
    await store.append(1, 0, -1, b"x")
    async with serving(store, stop_seconds=0) as server, linked(server.port) as link:
        request = pb.ReadRequest(ledger=1, max_entries=1, max_bytes=1)
        disk.before = hold
        reading = asyncio.create_task(link.ask_raw("Read", request, INCARNATION))
        await held.wait()
        await link.close()
        with pytest.raises(UnknownOutcome):
            await reading
        with pytest.raises(UnknownOutcome):
            await link.hello(1)
    disk.before = None
    await store.close()


SAME = [
    errors.UnknownOutcome,
    errors.Fenced,
    errors.NotFound,
    errors.CorruptEntry,
    errors.Refused,
    errors.TooLarge,
    errors.StorageFull,
    errors.StorageFailed,
    errors.Overloaded,
    errors.Unavailable,
    MaybeLost,
]


def failed_call(status: grpc.StatusCode, *trailer: tuple[str, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailer), details="the cause"
    )


@pytest.mark.parametrize("kind", SAME)
def test_an_error_arrives_as_what_it_was(kind: type[SulinaError]) -> None:
    code = code_of(kind("the cause"))
    for arrived in (
        error_of(code, "the cause", "storage-1"),
        error_of_call(failed_call(status_of(code), (CODE_KEY, str(code))), "storage-1"),
    ):
        assert type(arrived) is kind
        assert str(arrived) == "storage-1: the cause"


def test_every_code_is_used_and_has_a_status() -> None:
    used = {code_of(kind("")) for kind in SAME} | {code_of(None)}
    assert used == set(pb.Code.values())
    for code in used - {pb.OK}:
        assert status_of(code) not in (grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_kinds_of_refusal_arrive_as_refusals() -> None:
    assert code_of(errors.CorruptFrame("")) == code_of(errors.AlreadyExists("")) == pb.REFUSED


def test_a_node_that_was_closed_is_unavailable_to_its_client() -> None:
    assert isinstance(error_of(code_of(errors.Closed("")), "", "x"), Unavailable)


@pytest.mark.parametrize("error", [ValueError("a bug"), SulinaError("vague")])
def test_what_was_not_meant_to_happen_has_an_unknown_outcome(error: Exception) -> None:
    assert code_of(error) == pb.UNKNOWN_OUTCOME
    assert status_of(pb.UNKNOWN_OUTCOME) == grpc.StatusCode.UNKNOWN


def test_a_code_of_the_future_is_an_unknown_outcome() -> None:
    assert type(error_of(999, "", "x")) is UnknownOutcome


@pytest.mark.parametrize("status", list(grpc.StatusCode))
def test_a_status_without_a_code_is_an_unknown_outcome(status: grpc.StatusCode) -> None:
    assert type(error_of_call(failed_call(status), "x")) is UnknownOutcome
    assert type(error_of_call(failed_call(status, (CODE_KEY, "?")), "x")) is UnknownOutcome


async def test_a_full_node_says_that_it_takes_no_appends_until_it_has_space() -> None:
    store = MemoryEntryStore()
    async with serving(store) as server, linked(server.port) as link:
        store.full = StorageFull("no space is left")
        assert not (await link.hello(5)).writable
        server.show_health()
        await eventually_health(server.port, health_pb2.HealthCheckResponse.NOT_SERVING)
        store.full = None
        assert (await link.hello(5)).writable
        server.show_health()
        await eventually_health(server.port, health_pb2.HealthCheckResponse.SERVING)


async def eventually_health(port: int, wanted: int) -> None:
    async with asyncio.timeout(30):
        while await health_of(port) != wanted:
            await asyncio.sleep(0.02)
