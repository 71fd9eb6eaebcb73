"""Health: live and ready differ, and what is not ready says why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

from broker_containers.assembly.single import run_on_storage_nodes
from broker_containers.doors.http.health import Health, PartHealth
from broker_containers.doors.listen import Listen
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import Unavailable
from tests.http.client import Http, http_client
from tests.metadata.manual_clock import ManualClock
from tests.storage_service.process import storage_processes

PATIENCE = 60.0


async def fine() -> str:
    return "fine"


async def failing() -> NoReturn:
    raise Unavailable("nobody is there: start it")


async def hanging() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_broker_is_live_and_ready(http: Http) -> None:
    live = await http("GET", "/health/live")
    assert (live.status, live.json["status"]) == (200, "live")
    ready = await http("GET", "/health/ready")
    assert (ready.status, ready.json["status"]) == (200, "ready")
    assert set(ready.json["parts"]) == {"metadata", "storage"}
    assert all(part["ok"] for part in ready.json["parts"].values())


async def test_one_part_that_fails_makes_the_broker_unready_and_says_why() -> None:
    health = Health("b", ManualClock(), {"good": fine, "bad": failing})
    report = await health.ready()
    assert report.status == "unready"
    assert report.parts["good"] == PartHealth(True, "fine")
    assert report.parts["bad"] == PartHealth(False, "nobody is there: start it")


async def test_a_check_that_hangs_times_out() -> None:
    clock = ManualClock()
    health = Health("b", clock, {"good": fine, "slow": hanging})
    asking = asyncio.create_task(health.ready())
    await clock.advance(10.0)
    report = await asking
    assert report.status == "unready"
    assert "no answer" in report.parts["slow"].detail


async def test_a_broker_that_stops_is_not_ready() -> None:
    health = Health("b", ManualClock(), {"good": fine})
    health.stopping = True
    report = await health.ready()
    assert report.status == "unready" and "shutting down" in report.parts["broker"].detail


async def test_a_broker_without_enough_storage_nodes_is_unready_until_they_are_back(
    tmp_path: Path,
) -> None:
    with storage_processes(tmp_path, 2) as nodes:
        copies = QuorumSettings(write_quorum=2, ack_quorum=2)
        places = [node.place for node in nodes]
        listen = Listen(port=0)
        async with (
            run_on_storage_nodes(
                tmp_path / "broker", listen, places, quorum=copies, http=listen
            ) as server,
            http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
        ):
            assert (await http("GET", "/health/ready")).status == 200
            nodes[0].kill()
            await _status(http, 503)
            parts = (await http("GET", "/health/ready")).json["parts"]
            assert "1 storage nodes are healthy and 2 are needed" in parts["storage"]["detail"]
            assert parts["metadata"]["ok"]
            await nodes[0].start()
            await _status(http, 200)


async def _status(http: Http, wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await http("GET", "/health/ready")).status != wanted:
            await asyncio.sleep(0.05)
