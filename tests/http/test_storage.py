"""What publishers over HTTP get when the disk is full, stuck or broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.doors.listen import Listen
from sulina.errors import StorageFailed
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.cluster import SMALL_JOURNAL
from tests.broker.memory_cluster import GatedDisk, MemoryCluster
from tests.http.client import Http, http_client

MESSAGES = "/api/v1/topics/default/t/messages"
PATIENCE = 60.0


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
