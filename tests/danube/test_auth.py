"""The stock client with TLS and a token, unmodified: good, bad, expired, revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from broker_containers.doors.danube.settings import DanubeListen
from tests.auth.broker import Guarded, guarded_broker, json_web_token
from tests.danube.stock import PATIENCE, Stock, StockClient, StockError
from tests.support.tls import server_tls


class Tls:
    """A certificate for this machine, and the file of those to trust."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "127.0.0.1")
        self.trusted = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.trusted))
        self.door = DanubeListen(
            port=0,
            tls=server_tls(issued),
        )


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def guarded(tls: Tls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with guarded_broker(tmp_path_factory.mktemp("auth"), tls.door) as running:
        yield running


class Clients:
    """Stock clients that show tokens."""

    def __init__(self, stock: Stock, guarded: Guarded, tls: Tls) -> None:
        self._stock = stock
        self._guarded = guarded
        self._tls = tls

    async def __call__(self, token: str) -> StockClient:
        return await self._stock.client(self._guarded.grpc_url, ca=self._tls.trusted, token=token)


@pytest.fixture
def clients(stock: Stock, guarded: Guarded, tls: Tls) -> Clients:
    return Clients(stock, guarded, tls)


async def test_a_good_token_is_all_it_takes(clients: Clients, guarded: Guarded, topic: str) -> None:
    rights = (f"produce:{topic}", f"consume:{topic}", f"topics:{topic}")  # partitions need topics
    client = await clients(await guarded.token("web", *rights))
    producer = await client.producer(topic, partitions=2)
    consumer = await client.consumer(topic, "SHARED")
    await producer.send("first")
    message = await consumer.take()
    await consumer.nack(message)
    assert [message.payload for message in await consumer.take_all(1)] == ["first"]


async def test_a_token_of_danubes_own_tools_is_all_it_takes(
    clients: Clients, guarded: Guarded, topic: str
) -> None:
    grants = {"principal": "danube-app", "grants": [f"produce:{topic}"]}
    await guarded.root.admin("principal.grant", grants)
    producer = await (await clients(json_web_token("danube-app"))).producer(topic)
    await producer.send("signed by another")


async def test_a_bad_token_is_refused(clients: Clients, topic: str) -> None:
    client = await clients("a bad token")
    with pytest.raises(StockError, match="UNAUTHENTICATED: unknown token"):
        await client.producer(topic)
    with pytest.raises(StockError, match="UNAUTHENTICATED"):
        await client.consumer(topic)
    with pytest.raises(StockError, match="UNAUTHENTICATED"):
        await client.register("subject", "{}")


async def test_a_valid_token_of_somebody_without_rights_is_a_matter_of_permission(
    clients: Clients, topic: str
) -> None:
    client = await clients(json_web_token("unprivileged-app"))
    said = "PERMISSION_DENIED: unknown principal 'unprivileged-app': the token is valid"
    with pytest.raises(StockError, match=said):
        await client.producer(topic)
    with pytest.raises(StockError, match=said):
        await client.consumer(topic)


async def test_an_expired_token_is_refused(clients: Clients, guarded: Guarded, topic: str) -> None:
    client = await clients(await guarded.token("brief", f"produce:{topic}", seconds=2))

    async def send_for_ever() -> None:
        producer = await client.producer(topic)
        while True:
            await producer.send("in time")
            await asyncio.sleep(0.1)

    with pytest.raises(StockError, match="UNAUTHENTICATED: the token has expired"):
        await asyncio.wait_for(send_for_ever(), PATIENCE)


async def test_a_revoked_token_is_refused_at_once(
    clients: Clients, guarded: Guarded, topic: str
) -> None:
    made = await guarded.made("gone", f"produce:{topic}", f"consume:{topic}")
    client = await clients(made["token"])
    producer = await client.producer(topic)
    consumer = await client.consumer(topic)
    await producer.send("before")
    message = await consumer.take()
    await guarded.root.admin("token.revoke", {"id": made["id"]})
    with pytest.raises(StockError, match="UNAUTHENTICATED"):
        await producer.send("after")
    with pytest.raises(StockError, match="UNAUTHENTICATED"):
        await consumer.ack(message)
    async with guarded.root.producer(topic) as other:
        await other.send(b"not for it")
    assert await consumer.nothing()


async def test_a_token_allows_what_was_granted_and_no_more(
    clients: Clients, guarded: Guarded, topic: str
) -> None:
    producing = await clients(await guarded.token("producing", f"produce:{topic}"))
    producer = await producing.producer(topic)
    await producer.send("allowed")
    with pytest.raises(StockError, match="PERMISSION_DENIED: 'producing' may not"):
        await producing.consumer(topic)
    with pytest.raises(StockError, match="PERMISSION_DENIED"):
        await producing.producer(f"{topic}-other")
    with pytest.raises(StockError, match="PERMISSION_DENIED"):
        await producing.register("orders", "{}")
