"""One browser and one broker with traffic, for all tests of the console in a process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.settings import BrokerSettings, TablesSettings
from broker_containers.doors.listen import Listen
from broker_containers.metrics.traffic import TrafficSampler
from broker_containers.security.settings import AuthSettings
from sulina.runtime.tasks import stop_tasks
from tests.console.browser import HOW_TO_INSTALL, PROGRAM, Browser, chromium
from tests.http.client import Http, http_client

ROOT = "the-root-token-of-these-tests"
ORDERS = "/default/orders"
PICTURES = os.environ.get("SULINA_SCREENSHOTS")
"""The folder for the pictures of the documents; they are only made if it is set."""


@dataclass(frozen=True, slots=True)
class Site:
    """A broker that needs tokens, and what is in it."""

    url: str
    client_url: str
    http: Http
    """As root."""
    client: sulina.Client
    sampler: TrafficSampler


@pytest.fixture(scope="session", autouse=True)
def browser_installed() -> None:
    if PROGRAM is None:
        pytest.skip(HOW_TO_INSTALL)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder: Path = tmp_path_factory.mktemp("console")
    doors = DoorSettings(Listen(port=0), http=Listen(port=0))
    async with (
        run_embedded(
            folder / "data",
            doors,
            BrokerSettings(
                tables=TablesSettings(f"sqlite:///{folder}/tables.db", f"{folder}/lake")
            ),
            auth=AuthSettings(ROOT),
            tier=f"file://{folder}/lake",
            audit=AuditSettings(),
        ) as server,
        sulina.connect(server.addresses.url, token=ROOT) as client,
        http_client(
            f"http://127.0.0.1:{server.addresses.http_port}",
            headers={"Authorization": f"Bearer {ROOT}"},
        ) as http,
    ):
        made = Site(http.url, server.addresses.url, http, client, server.services.sampler)
        await _fill(client)
        publishing = asyncio.create_task(_publish(client))
        await made.sampler.take()
        try:
            yield made
        finally:
            await stop_tasks(publishing)


async def _fill(client: sulina.Client) -> None:
    """Orders of 50 customers, and a subscription that nobody reads."""
    async with client.producer(ORDERS) as producer:
        for number in range(2000):
            order = {"order": number, "item": "tea" if number % 3 else "coffee"}
            await producer.send(json.dumps(order).encode(), key=f"customer-{number % 50}")
        await producer.send(b"\x00\x01 not text", attributes={"colour": "green"})
    await client.admin.subscriptions.create(ORDERS, "billing", start=sulina.Start.earliest())
    await client.admin.topics.create("/default/clicks", partitions=2)


async def _publish(client: sulina.Client) -> None:
    number = 0
    async with client.producer("/default/ticks") as producer:
        while True:
            await producer.send(f"tick {number}".encode())
            number += 1
            await asyncio.sleep(0.1)


async def sign_in(browser: Browser, site: Site, page: str = "", token: str = ROOT) -> None:
    """Open a page of the console, signed in."""
    browser.errors.clear()
    await browser.goto(f"{site.url}/")
    await browser.run(f"sessionStorage.setItem('sulina.token', {json.dumps(token)})")
    await browser.goto(f"{site.url}/{page}")
    await browser.until("Boolean(document.querySelector('main h1'))")


async def picture(browser: Browser, name: str) -> None:
    """Write a picture of the documents, if it is wanted."""
    if PICTURES:
        await browser.screenshot(Path(PICTURES) / f"console_{name}.png")
