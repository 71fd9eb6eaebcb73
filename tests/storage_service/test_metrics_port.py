"""The metrics and health of a storage node over HTTP, and what strangers can do there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from storage_grpc.journal import JournalStore
from storage_grpc.service import http_port
from storage_grpc.service.http_port import Answer, HttpPort
from storage_grpc.service.process import storage_node
from storage_grpc.service.server import StorageServer
from storage_grpc.service.settings import ServiceSettings
from sulina.errors import Refused, StorageFull
from sulina.runtime import machine_watch
from sulina.runtime.real_clock import RealClock
from tests.support.etcd import free_ports

Node = tuple[StorageServer, JournalStore, int]


@pytest_asyncio.fixture(loop_scope="session")
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    [port] = free_ports(1)
    settings = ServiceSettings(data=tmp_path / "data", port=0, metrics_port=port, journal_file_mb=1)
    async with storage_node(settings) as (server, store):
        yield server, store, port


async def request(port: int, text: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer; 0 if the connection is closed without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text)
        answer = await reader.read()
    except OSError:
        answer = b""
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


async def get(port: int, path: str) -> tuple[int, bytes]:
    return await request(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def samples(port: int) -> dict[str, float]:
    status, body = await get(port, "/metrics")
    assert status == 200
    families = list(text_string_to_metric_families(body.decode()))
    assert len({each.name for each in families}) == len(families)
    return {one.name: one.value for each in families for one in each.samples}


async def test_metrics_count_what_the_node_stores(node: Node) -> None:
    _, store, port = node
    before = await samples(port)
    await store.append(1, 0, -1, b"twelve bytes")
    await store.append(2, 0, -1, b"x")
    await store.fence(2)
    after = await samples(port)
    grown = {name: after[name] - before[name] for name in before if name in after}
    assert grown["sulina_journal_appends_total"] == 2
    assert grown["sulina_journal_append_bytes_total"] == 13
    assert grown["sulina_journal_sync_seconds_count"] == 3
    assert (after["sulina_storage_ledgers"], after["sulina_storage_ledgers_fenced"]) == (2, 1)
    assert after["sulina_storage_writable"] == 1 and after["sulina_storage_append_streams"] == 0
    for name in ("sulina_disk_free_bytes", "sulina_journal_bytes", "process_resident_memory_bytes",
                 "process_max_fds", "sulina_clock_jumps_total"):  # fmt: skip
        assert name in after


async def test_readiness_says_why_the_node_takes_no_appends(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store, port = node
    assert (await get(port, "/health/live"))[0] == 200
    status, body = await get(port, "/health/ready")
    reserved = f"{store.reserved_bytes:,} bytes are reserved for them"
    assert (status, json.loads(body)["detail"]) == (200, f"the node takes appends; {reserved}")
    monkeypatch.setattr(store._committer, "full", StorageFull("the disk is full: make room"))
    status, body = await get(port, "/health/ready")
    assert (status, json.loads(body)) == (
        503, {"status": "unready", "detail": "the disk is full: make room"},
    )  # fmt: skip
    assert (await samples(port))["sulina_storage_writable"] == 0


async def test_a_node_short_of_descriptors_is_not_ready(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = node[2]
    monkeypatch.setattr(machine_watch, "descriptor_limit", lambda: 8)
    status, body = await get(port, "/health/ready")
    assert status == 503 and "of 8 file descriptors are in use" in json.loads(body)["detail"]
    assert (await samples(port))["sulina_descriptors_scarce"] == 1
    monkeypatch.undo()
    assert (await get(port, "/health/ready"))[0] == 200


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nx: " + b"x" * 40_000 + b"\r\n\r\n", 400),
        (b"HEAD /health/live HTTP/1.0\r\n\r\n", 200),
    ],
)
async def test_other_requests_are_refused(node: Node, text: bytes, status: int) -> None:
    found, body = await request(node[2], text)
    # Bytes that nobody reads may reset the connection before the answer is seen.
    assert found in (status, 0 if len(text) > 16 << 10 else status)
    assert not body.startswith(b"{")


async def test_silent_connections_are_bounded_and_do_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_port, "_SECONDS", 0.3)

    async def pages(path: str) -> Answer:
        return Answer(200, "text/plain", path.encode())

    async with HttpPort(pages, RealClock(), "127.0.0.1", 0) as served:
        idle = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(40)]
        ends = [asyncio.create_task(reader.read()) for reader, _ in idle]
        await asyncio.wait(ends)
        assert await get(served.port, "/x") == (200, b"/x")
        for _, writer in idle:
            writer.close()
        with pytest.raises(Refused, match="--metrics-port"):
            await HttpPort(pages, RealClock(), "127.0.0.1", served.port).__aenter__()
