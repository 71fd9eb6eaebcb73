"""One broker in this process, with a port for stock clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.listen import Listen


@dataclass(frozen=True)
class OneBroker:
    """Its URLs."""

    url: str
    """For stock clients."""
    native_url: str
    """For ``sulina.connect``."""


@asynccontextmanager
async def one_broker(
    folder: Path, settings: BrokerSettings | None = None, danube: DanubeListen | None = None
) -> AsyncIterator[OneBroker]:
    """A broker with a journal of its own."""
    door = danube or DanubeListen(port=0)
    async with run_embedded(folder, Listen(port=0), settings, danube=door) as server:
        yield OneBroker(
            f"{door.scheme}://127.0.0.1:{server.addresses.grpc_port}", server.addresses.url
        )
