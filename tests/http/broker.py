"""A broker with an HTTP door in the test's own process, with settings of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_containers.assembly.running import RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.doors.listen import Listen
from tests.http.client import Http, http_client


@dataclass(frozen=True, slots=True)
class Running:
    """The broker and a client of its HTTP door."""

    server: RunningBroker
    http: Http

    @property
    def port(self) -> int:
        assert self.server.addresses.http_port is not None
        return self.server.addresses.http_port


@asynccontextmanager
async def running(folder: Path, settings: HttpSettings | None = None) -> AsyncIterator[Running]:
    broker = BrokerSettings(http=settings or HttpSettings())
    serving = run_embedded(folder / "data", Listen(port=0), broker, http=Listen(port=0))
    async with (
        serving as server,
        http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
    ):
        yield Running(server, http)
