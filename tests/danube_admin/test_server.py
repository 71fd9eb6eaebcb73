"""The door itself: port, TLS, limits, deadlines and shutdown."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import trustme

from broker_containers.assembly.running import RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.commands.listening import danube_admin_listen
from broker_containers.doors.danube_admin.settings import AdminListen, AdminSettings
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
from sulina.operations.topics import NamespaceOperations
from tests.cli.runner import SulinaCommand
from tests.danube_admin.client import AdminClient, admin_client
from tests.support.server import SulinaProcess

PATIENCE = 60.0
METHOD = "BrokerAdmin/ListNamespaces"


@asynccontextmanager
async def running(
    folder: Path, listen: AdminListen | None = None
) -> AsyncIterator[tuple[RunningBroker, AdminClient]]:
    """A broker in this process, and a client of its admin door."""
    door = listen or AdminListen(port=0)
    async with run_embedded(folder, Listen(port=0), danube_admin=door) as server:
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
    async with run_embedded(tmp_path, Listen(port=0)) as server:
        assert server.addresses.danube_admin_port is None


def test_without_grpc_a_broker_runs_without_the_door_unless_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "broker_containers.doors.danube_admin.server", None)
    assert danube_admin_listen("127.0.0.1", 0, None, None, None) is None
    with pytest.raises(Refused, match=r"pip install 'sulina\[all-in-one\]'"):
        danube_admin_listen("127.0.0.1", 0, 50051, None, None)


def test_the_port_is_danubes_unless_all_ports_are_to_be_free() -> None:
    for wanted, port, used in ((None, 6655, 50051), (None, 0, 0), (7, 0, 7), (0, 6655, 0)):
        listen = danube_admin_listen("127.0.0.1", port, wanted, None, None)
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
    listen = AdminListen(port=0, certificate=certificate.private_key_and_cert_chain_pem.bytes())
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
            grpc.StatusCode.RESOURCE_EXHAUSTED, "TopicAdmin/CreateTopic", name="x" * 2000
        )


async def test_a_call_under_way_is_finished_when_the_broker_stops(tmp_path: Path) -> None:
    slow = Slow()
    listen = AdminListen(port=0, settings=AdminSettings(goodbye_seconds=60))
    serving = run_embedded(tmp_path, Listen(port=0), danube_admin=listen)
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
