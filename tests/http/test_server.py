"""The server itself: port, limits, shutdown, TLS; and a disk that is full, stuck or broken."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.doors.listen import Listen
from sulina.errors import Refused, StorageFailed
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.cluster import SMALL_JOURNAL
from tests.broker.memory_cluster import GatedDisk, MemoryCluster
from tests.cli.runner import SulinaCommand
from tests.http.client import Http, Running, http_client, running
from tests.support.server import SulinaProcess

_HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
PATIENCE = 30.0


async def test_a_taken_port_is_reported_and_nothing_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as first:
        taken = Listen(port=first.port)
        with pytest.raises(Refused, match=f"can't listen on 127.0.0.1:{first.port} for HTTP"):
            async with run_embedded(tmp_path / "other", DoorSettings(Listen(port=0), http=taken)):
                raise AssertionError("it runs")
        async with run_embedded(
            tmp_path / "other", DoorSettings(Listen(port=0), http=Listen(port=0))
        ) as second:
            assert second.addresses.http_port != first.port


def test_the_command_line_says_where_http_is_and_whether_its_port_is_taken(tmp_path: Path) -> None:
    with SulinaProcess(tmp_path / "data") as server:
        assert server.http_url == f"http://127.0.0.1:{server.http_port}"
        nobody = SulinaCommand("sulina://127.0.0.1:1")
        ports = ("--port", "0", "--http-port", str(server.http_port))
        ran = nobody("up", "--data", str(tmp_path / "other"), *ports, code=1)
        assert "--http-port" in ran.stderr and ran.stderr.count("\n") == 1


_UNFINISHED = (
    b"POST /api/v1/topics/default/t/messages HTTP/1.1\r\n"
    b"Host: localhost\r\nContent-Length: 4\r\n\r\n"
)
"""A request whose body never comes: its connection is in use."""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_beyond_the_limit_only_health_checks_are_answered(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with running(tmp_path, HttpSettings(max_connections=2)) as broker:
            used = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(2)]
            for _, writer in used:
                writer.write(_UNFINISHED)
            await asyncio.sleep(0.1)
            silent = (asyncio.open_connection("127.0.0.1", broker.port) for _ in range(100))
            used.extend(await asyncio.gather(*silent))  # they do not use up the reserve
            for path, status in ((b"/health/ready", b"200"), (b"/docs", b"503")):
                reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = await asyncio.wait_for(reader.read(), PATIENCE)  # it is closed, too
                assert answer.startswith(b"HTTP/1.1 " + status)
                writer.close()
            assert b"/docs#too-many-connections" in answer
            for _, writer in used:
                writer.close()

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(scenario(), 2 * PATIENCE))


async def test_a_health_check_is_answered_although_many_connections_follow_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, HttpSettings(max_connections=2)) as broker:
        place = "127.0.0.1", broker.port
        used = [await asyncio.open_connection(*place) for _ in range(2)]
        for _, writer in used:
            writer.write(_UNFINISHED)
        await asyncio.sleep(0.1)
        check = socket.create_connection(place)
        check.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # The broker has not run since then: it accepts all of them before it reads anything.
        more = [socket.create_connection(place) for _ in range(40)]
        reader, writer = await asyncio.open_connection(sock=check)
        assert (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP/1.1 200")
        for each in more:
            each.close()
        for _, used_writer in used:
            used_writer.close()
        writer.close()


async def test_a_new_connection_replaces_the_one_that_is_idle_for_longest(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(max_connections=2)) as broker:
        idle = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(2)]
        for reader, writer in idle:
            writer.write(_HEAD + b"\r\n")
            assert (await _one_answer(reader)).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(1.1)
        assert (await broker.http("GET", "/docs")).status == 200
        assert await asyncio.wait_for(_rest(idle[0][0]), PATIENCE) == b""
        idle[1][1].write(_HEAD + b"\r\n")
        assert (await _one_answer(idle[1][0])).startswith(b"HTTP/1.1 200")
        for _, writer in idle:
            writer.close()


async def test_a_first_request_may_take_as_long_as_any_other(tmp_path: Path) -> None:
    settings = HttpSettings(silent_seconds=0.1)
    async with running(tmp_path, settings) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(_UNFINISHED)
        await asyncio.sleep(0.5)
        writer.write(b"late")
        assert (await _one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_connection_without_a_request_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(silent_seconds=0.1)) as broker:
        for said in (b"", _HEAD):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(said)
            assert await asyncio.wait_for(_rest(reader), PATIENCE) == b""
            writer.close()


async def test_a_connection_whose_peer_does_not_read_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(silent_seconds=1.0)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(_HEAD + b"\r\n")
        assert (await _one_answer(reader)).startswith(b"HTTP/1.1 200")
        assert 'sulina_connections{door="http"} 2\n' in await _metrics(broker)
        for _ in range(500):
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            while 'sulina_connections{door="http"} 1\n' not in await _metrics(broker):
                await asyncio.sleep(0.05)
        writer.close()


async def test_a_connection_with_a_request_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(silent_seconds=1.0)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        for _ in range(3):
            writer.write(_HEAD + b"\r\n")
            assert (await _one_answer(reader)).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.6)
        writer.close()


async def test_requests_under_way_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with running(tmp_path) as broker:
            port = broker.port
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            for number, (reader, writer) in enumerate(held):
                writer.write(_HEAD + b"\r\n")
                await _one_answer(reader)
                path = f"/api/v1/topics/default/t{number}/messages"
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
                writer.write(head.encode() + b"last")
            await broker.http.ok("GET", "/health/live")  # the server has read what came before
        for reader, writer in held:
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200") and b'"offset": 0' in answer
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_idle_connections_do_not_keep_the_broker_from_stopping(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with running(tmp_path) as broker:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(_HEAD + b"\r\n")
            await _one_answer(reader)
        assert await reader.read() == b""
        writer.close()


async def test_https_is_served_with_the_certificate_of_the_binary_port(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "broker.pem", tmp_path / "broker.key"
    issued.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with SulinaProcess(tmp_path / "data", *tls) as server:
        assert server.http_url.startswith("https://")
        async with http_client(server.http_url) as http:
            answer = await http("GET", "/health/ready", ssl=trusting)
            assert answer.json["status"] == "ready"


async def _metrics(broker: Running) -> str:
    return (await broker.http("GET", "/metrics")).text


async def _one_answer(reader: asyncio.StreamReader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    return head + await asyncio.wait_for(reader.readexactly(length), PATIENCE)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends. It ends with a reset if the server closes it before
    it has read everything that was sent, as it may on a busy machine."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


MESSAGES = "/api/v1/topics/default/t/messages"


@asynccontextmanager
async def over(disk: MemoryDisk, settings: HttpSettings | None = None) -> AsyncIterator[Http]:
    """The HTTP door of a broker whose journal is on ``disk``."""
    broker = BrokerSettings(http=settings or HttpSettings())
    async with (
        MemoryCluster(disk, settings=broker, journal=SMALL_JOURNAL, http=Listen(port=0)) as cluster,
        http_client(cluster.server.addresses.http_url) as http,
    ):
        yield http


async def payloads(http: Http) -> list[str]:
    read = await http.ok("GET", f"{MESSAGES}?limit=1000")
    return [message["payload"] for message in read["messages"]]


async def test_a_full_disk_is_reported_and_publishing_resumes_with_space() -> None:
    disk = MemoryDisk(capacity=300_000)
    async with asyncio.timeout(PATIENCE), over(disk) as http:
        stored: list[str] = []
        while (await http("POST", MESSAGES, data=b"%04d" % len(stored) * 1000)).status == 200:
            stored.append(f"{len(stored):04d}" * 1000)
        answer = await http("POST", MESSAGES, data=b"one more" * 1000)
        answer.problem(507, "storage-full")
        assert answer.json["retriable"] is True
        assert await payloads(http) == stored
        disk.capacity = 10_000_000
        await http.ok("POST", MESSAGES, data=b"now")
        assert await payloads(http) == [*stored, "now"]


async def test_a_stuck_disk_leaves_the_outcome_unknown() -> None:
    disk = GatedDisk()
    async with asyncio.timeout(PATIENCE), over(disk, HttpSettings(request_seconds=2.0)) as http:
        await http.ok("POST", MESSAGES, data=b"before")
        disk.close_gate()
        answer = await http("POST", MESSAGES, data=b"maybe")
        assert "check the outcome" in answer.problem(504, "unknown-outcome")
        assert answer.json["retriable"] is False
        disk.open_gate()
        while await payloads(http) != ["before", "maybe"]:
            await asyncio.sleep(0.01)


async def test_a_broken_disk_makes_the_broker_unready() -> None:
    broken = False

    async def before(operation: str, name: str) -> None:
        if broken and operation == "write":
            raise StorageFailed("the disk is broken")

    async with asyncio.timeout(PATIENCE), over(MemoryDisk(before=before)) as http:
        await http.ok("POST", MESSAGES, data=b"before")
        broken = True
        (await http("POST", MESSAGES, data=b"x")).problem(504, "unknown-outcome")
        ready = await http("GET", "/health/ready")
        assert ready.status == 503
        assert not ready.json["parts"]["storage"]["ok"]
        assert ready.json["parts"]["storage"]["detail"]
        assert await payloads(http) == ["before"]
