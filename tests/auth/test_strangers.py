"""What callers without a valid token can do to a broker: next to nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube import danube_pb2 as pb
from sulina.wire import commands_pb2 as wire
from sulina.wire.commands import PROTOCOL_VERSION, Command, Incoming, pack, unpack
from tests.auth.broker import ROOT, Guarded, bearer, guarded_broker
from tests.danube.calls import Calls, status_of

Code = grpc.StatusCode
HEALTH = "/grpc.health.v1.Health/"
PATIENCE = 60.0


def resident_mib() -> int:
    """Memory of this process, in which the broker runs."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 >> 20


# ---- gRPC ----


async def test_a_call_without_a_token_is_refused_before_its_message_arrives(
    guarded: Guarded,
) -> None:
    """The message is announced and never completed: waiting for it would take for ever."""
    place = guarded.grpc_url.partition("://")[2]
    async with grpc.aio.insecure_channel(place) as channel:
        open_stream: Any = channel.stream_unary("/danube.ProducerService/SendMessage")
        call = open_stream()  # headers only; the server's method takes one message
        assert await asyncio.wait_for(call.code(), PATIENCE) is Code.UNAUTHENTICATED


async def test_a_message_over_the_limit_is_not_read_whole(guarded: Guarded) -> None:
    before = resident_mib()
    payload = b"x" * (64 << 20)
    async with Calls(guarded.grpc_url, ROOT) as calls:
        await calls.producer("/default/big")
        code = await status_of(calls.send("/default/big", payload))
    assert code is Code.INVALID_ARGUMENT
    async with Calls(guarded.grpc_url) as calls:
        for _ in range(3):
            assert await status_of(calls.send("/default/big", payload)) is Code.UNAUTHENTICATED
    del payload
    assert resident_mib() - before < 160  # the client is in this process, too


async def test_a_health_check_without_a_token_makes_the_client_reconnect(guarded: Guarded) -> None:
    async with Calls(guarded.grpc_url) as calls:
        answer = await calls("HealthCheck", client=pb.HealthCheckRequest.Producer, id=1)
    assert answer.status == pb.HealthCheckResponse.CLOSE


async def test_a_key_is_still_exchanged_for_a_token_without_one(guarded: Guarded) -> None:
    async with Calls(guarded.grpc_url) as calls:
        assert (await calls("Authenticate", api_key=ROOT)).token == ROOT
        assert await status_of(calls("Authenticate", api_key="wrong")) is Code.UNAUTHENTICATED


async def test_reflection_needs_a_token(guarded: Guarded) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.admin_port}") as channel:
        path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        open_stream: Any = channel.stream_stream(path)
        assert await asyncio.wait_for(open_stream().code(), PATIENCE) is Code.UNAUTHENTICATED


async def test_health_watchers_do_not_lock_anybody_out(guarded: Guarded) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.admin_port}") as channel:
        watch: Any = channel.unary_stream(HEALTH + "Watch")
        streams = [watch(b"") for _ in range(140)]
        codes = await asyncio.gather(*map(_first, streams))
        assert codes.count(None) == 16  # served
        assert set(codes) <= {None, Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE}
        check: Any = channel.unary_unary(
            HEALTH + "Check", response_deserializer=health_pb2.HealthCheckResponse.FromString
        )
        assert (await check(b"", timeout=PATIENCE)).status == 1
        lists: Any = channel.unary_unary("/danube_admin.BrokerAdmin/ListBrokers")
        await lists(b"", timeout=PATIENCE, metadata=[("authorization", f"Bearer {ROOT}")])
        for stream in streams:
            stream.cancel()


async def _first(stream: Any) -> grpc.StatusCode | None:
    try:
        assert await asyncio.wait_for(stream.read(), PATIENCE)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


async def test_health_checks_without_a_message_do_not_lock_anybody_out(guarded: Guarded) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.admin_port}") as channel:
        unfinished: Any = channel.stream_unary(HEALTH + "Check")
        held = [unfinished() for _ in range(100)]
        ended = asyncio.gather(*(call.code() for call in held[:84]))
        assert set(await asyncio.wait_for(ended, PATIENCE)) == {Code.RESOURCE_EXHAUSTED}
        check: Any = channel.unary_unary(HEALTH + "Check")
        await check(b"", timeout=PATIENCE)


async def test_a_garbage_message_is_logged_as_one_short_line(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    async with Calls(guarded.grpc_url, ROOT) as calls:
        send: Any = calls.channel.unary_unary("/danube.ProducerService/SendMessage")
        for _ in range(20):
            token = [("authorization", f"Bearer {ROOT}")]
            assert await status_of(send(b"\xff", metadata=token)) is Code.INVALID_ARGUMENT
    logged = [record for record in caplog.records if record.name.startswith("grpc")]
    assert len(logged) <= 2 and all(record.exc_info is None for record in logged)


# ---- the binary door ----


async def dial(broker: Guarded) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", broker.server.addresses.port)


def hello(token: str) -> bytes:
    return pack(Command.CONNECT, 1, wire.Connect(protocol=PROTOCOL_VERSION, token=token))


async def reply(reader: asyncio.StreamReader) -> Incoming:
    length = await asyncio.wait_for(reader.readexactly(4), PATIENCE)
    rest = await reader.readexactly(int.from_bytes(length, "little"))
    return unpack(memoryview(length + rest))


async def test_silent_connections_make_room_for_a_client(tmp_path: Path) -> None:
    settings = BrokerSettings(max_unidentified=4, max_unidentified_per_address=4)
    async with guarded_broker(tmp_path, settings=settings) as broker:
        silent = [await dial(broker) for _ in range(4)]
        refused_reader, refused = await dial(broker)  # all others have just been opened
        refused.write(hello(ROOT))
        answer = (await reply(refused_reader)).body
        assert isinstance(answer, wire.Error) and answer.kind == wire.OVERLOADED
        assert "try again later" in answer.message
        await asyncio.sleep(1.2)  # now they are idle
        async with broker.connect(ROOT) as client:
            await client.admin("namespace.list", {})
        assert await asyncio.wait_for(silent[0][0].read(), PATIENCE) == b""  # the oldest
        for _, writer in [*silent, (refused_reader, refused)]:
            writer.close()


async def test_only_with_the_brokers_own_token_a_client_is_who_it_says(guarded: Guarded) -> None:
    """Brokers say so of clients whose certificates they have seen."""
    await guarded.token("billing", "lookup:/default/bills")
    limited = await guarded.token("nobody", "lookup:/default/other")
    found = {}
    for name, token in (("stranger", ""), ("client", limited), ("broker", ROOT)):
        reader, writer = await dial(guarded)
        claim = wire.Connect(
            protocol=PROTOCOL_VERSION, token=token, principal="billing", until_us=1 << 60
        )
        writer.write(pack(Command.CONNECT, 1, claim))
        answer = await reply(reader)
        if answer.command is Command.CONNECTED:
            writer.write(pack(Command.ADMIN, 2, wire.Admin(method="principal.whoami")))
            shown = (await reply(reader)).body
            assert isinstance(shown, wire.AdminResult)
            found[name] = json.loads(shown.result)["principal"]
        writer.close()
    assert found == {"client": "nobody", "broker": "billing"}


async def test_a_connection_with_a_token_is_not_replaced(tmp_path: Path) -> None:
    settings = BrokerSettings(max_unidentified=1, max_unidentified_per_address=1)
    async with guarded_broker(tmp_path, settings=settings) as broker:
        reader, writer = await dial(broker)
        writer.write(hello(ROOT))
        assert (await reply(reader)).command is Command.CONNECTED
        others = [await dial(broker) for _ in range(5)]
        writer.write(pack(Command.PING, 2, wire.Ping()))
        assert (await reply(reader)).command is Command.PONG
        for _, other in [*others, (reader, writer)]:
            other.close()


async def test_refusals_of_bad_tokens_are_delayed_and_good_ones_are_not(guarded: Guarded) -> None:
    async def attempt() -> wire.Error:
        reader, writer = await dial(guarded)
        writer.write(hello("a bad token"))
        answer = (await reply(reader)).body
        writer.close()
        assert isinstance(answer, wire.Error)
        return answer

    answers = await asyncio.gather(*(attempt() for _ in range(40)))
    kinds = {answer.kind for answer in answers}
    assert kinds == {wire.REFUSED, wire.OVERLOADED}
    assert any("too many invalid tokens from 127.0.0.1" in answer.message for answer in answers)
    async with guarded.connect(ROOT) as client:
        await client.admin("namespace.list", {})


# ---- HTTP ----


async def test_kept_alive_connections_of_strangers_do_not_lock_anybody_out(
    guarded: Guarded,
) -> None:
    port = guarded.server.addresses.http_port
    opened = []
    for _ in range(260):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 200")
        opened.append(writer)
    answered = await guarded.http("GET", "/health/ready", headers={"Connection": "close"})
    assert answered.status == 200
    await asyncio.sleep(1.2)  # then they are idle
    listed = await guarded.http("GET", "/api/v1/namespaces", headers=bearer(ROOT))
    assert listed.status == 200
    for writer in opened:
        writer.close()


async def test_refusals_over_http_say_when_to_try_again(guarded: Guarded) -> None:
    wrong = [guarded.http("GET", "/api/v1/namespaces", headers=bearer("wrong")) for _ in range(40)]
    answers = await asyncio.gather(*wrong)
    assert {answer.status for answer in answers} == {401, 429}
    assert (await guarded.http("GET", "/api/v1/namespaces", headers=bearer(ROOT))).status == 200
