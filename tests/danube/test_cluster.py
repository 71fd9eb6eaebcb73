"""Clusters in this process, and of processes: clients are served through any broker."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import trustme

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.doors.listen import Listen
from sulina.metadata.etcd.server import find_etcd
from sulina.model import Start
from tests.auth.broker import bearer
from tests.danube.brokers import DanubeBrokers
from tests.danube.calls import Calls, status_of
from tests.danube.load import StockLoad
from tests.danube.stock import Received, Stock, StockConsumer, StockProducer, flow
from tests.danube_admin.client import AdminClient
from tests.http.client import http_client
from tests.support.local_cluster import ClusterUp

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def redirecting() -> AsyncIterator[DanubeBrokers]:
    """Brokers that clients reach each by its own address."""
    async with DanubeBrokers() as brokers:
        await brokers.start("one", "two", "three")
        yield brokers


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def proxied() -> AsyncIterator[DanubeBrokers]:
    """Brokers behind one address."""
    async with DanubeBrokers(proxied=True) as brokers:
        await brokers.start("one", "two", "three")
        yield brokers


async def test_clients_are_sent_to_the_owner_whoever_they_ask(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    for number, name in enumerate(redirecting.running):
        client = await stock.client(redirecting.urls[name])
        topic = f"/default/asked-{name}"
        producer = await client.producer(topic, partitions=2)
        consumer = await client.consumer(topic, "SHARED")
        await flow(producer, consumer, f"{number} first", f"{number} second")


async def test_clients_behind_one_address_are_served_by_owners_elsewhere(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    client = await stock.client(proxied.shared_url)
    for number in range(3):
        topic = f"/default/behind-{number}"
        producer = await client.producer(topic, reliable=True)
        consumer = await client.consumer(topic, "EXCLUSIVE")
        await flow(producer, consumer, "first", "second")
        await consumer.ack(await again(producer, consumer))


async def again(producer: StockProducer, consumer: StockConsumer) -> Received:
    """A rejected message is redelivered."""
    await producer.send("again")
    first = await consumer.take()
    await consumer.nack(first, reason="not yet")
    second = await consumer.take()
    assert (second.payload, second.offset) == ("again", first.offset)
    return second


async def test_a_planned_move_is_not_noticed_by_the_application(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    topic = "/default/moving"
    client = await stock.client(redirecting.urls["one"])
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await flow(producer, consumer, "before")
    await producer.send("held")
    held = await consumer.take()
    await redirecting.move(topic, await redirecting.other(topic))
    await consumer.ack(held)  # at the old place, for the new one
    await flow(producer, consumer, "after", "and after")
    async with redirecting.client() as native:
        about = await native.admin("subscription.describe", {"topic": topic, "subscription": "s"})
        assert about["backlog"] == 0
        # Nothing of the topic is lost by the move.
        async with native.consumer(topic, "all", start=Start.earliest()) as everything:
            payloads = [(await everything.receive(30)).payload for _ in range(4)]
    assert payloads == [b"before", b"held", b"after", b"and after"]


async def test_a_move_behind_one_address_is_not_noticed_either(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/moving"
    client = await stock.client(proxied.shared_url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "FAILOVER")
    await flow(producer, consumer, "before")
    for round_ in range(2):
        await proxied.move(topic, await proxied.other(topic))
        await flow(producer, consumer, f"after {round_}")


async def test_a_broker_that_stops_hands_its_clients_over(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/handed-over"
    client = await stock.client(proxied.shared_url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "SHARED")
    await flow(producer, consumer, "before")
    owner = await proxied.owner(topic)
    await proxied.stop(owner)
    await flow(producer, consumer, "while it is away")
    await proxied.start(owner)
    await flow(producer, consumer, "after")


async def test_a_broker_that_stops_tells_its_clients_where_their_topics_are(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    async with StockLoad(stock, redirecting.urls["one"], "/default/redirected") as load:
        owner = await redirecting.owner(load.topic)
        await redirecting.stop(owner)
        await load.flows()
        await redirecting.start(owner)
        await load.flows()
        report = await load.end()
    assert not report.errors
    assert not report.missing


class WithHttp(DanubeBrokers):
    """Brokers that load balancers can ask for their health."""

    def door_settings(self, name: str) -> DoorSettings:
        return replace(super().door_settings(name), http=Listen(port=0))


async def test_a_broker_is_not_ready_while_it_tells_clients_where_to_go() -> None:
    topic = "/default/unready"
    async with WithHttp() as brokers:
        await brokers.start("one", "two")
        at = brokers.doors["one"].addresses.http_url
        async with Calls(brokers.urls["one"]) as calls, http_client(at) as http:
            await status_of(calls.producer(topic))
            assert (await http("GET", "/health/ready")).status == 200
            stopping = asyncio.create_task(brokers.stop("one"))
            while (await http("GET", "/health/ready")).status == 200:
                await asyncio.sleep(0.05)
            found = await calls("TopicLookup", topic=topic)
            while found.broker_url != brokers.urls["two"]:
                found = await calls("TopicLookup", topic=topic)
            assert not stopping.done()
        await stopping


async def test_a_lost_broker_is_not_noticed_by_applications_behind_one_address(
    stock: Stock, proxied: DanubeBrokers
) -> None:
    topic = "/default/lost"
    client = await stock.client(proxied.shared_url)
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await flow(producer, consumer, "before")
    owner = await proxied.owner(topic)
    await proxied.lose(owner)
    await flow(producer, consumer, "after")
    await proxied.find(owner)
    await flow(producer, consumer, "and when it is back")


async def test_everything_is_served_on_while_the_metadata_store_is_away(
    stock: Stock, redirecting: DanubeBrokers
) -> None:
    topic = "/default/no-store"
    client = await stock.client(redirecting.urls["two"])
    producer = await client.producer(topic)
    consumer = await client.consumer(topic, "FAILOVER")
    await flow(producer, consumer, "before")
    for way in redirecting.ways.values():
        way.cut()
    while any(node.membership.lease is not None for node in redirecting.running.values()):
        await asyncio.sleep(0.05)
    await flow(producer, consumer, "while it is away")
    for way in redirecting.ways.values():
        way.mend()
    await flow(producer, consumer, "after")
    # A broker that reaches the store a moment later than the others sends its clients to them.
    while any(node.membership.lease is None for node in redirecting.running.values()) or any(
        door.binary.away for door in redirecting.doors.values()
    ):
        await asyncio.sleep(0.05)


async def test_a_consumer_that_missed_its_health_check_is_served_from_where_it_asks(
    redirecting: DanubeBrokers,
) -> None:
    """Stock clients give health checks up after one error; then a number is all that is left."""
    topic = "/default/left-behind"
    async with AsyncExitStack() as stack:
        calls = {
            name: await stack.enter_async_context(Calls(url))
            for name, url in redirecting.urls.items()
        }
        await asyncio.gather(*(status_of(each.producer(topic)) for each in calls.values()))
        owner = await redirecting.owner(topic)
        number = await calls[owner].subscribe(topic)
        await redirecting.move(topic, await redirecting.other(topic))
        await calls[await redirecting.owner(topic)].send(topic, b"after")
        message, refused = None, 0
        while message is None:
            try:
                message = await calls[owner].stream(number).read()
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
                refused += 1
        assert message.payload == b"after"
        assert refused  # first it is given the time to find the way by itself


TOPIC = "/default/guarded"


async def admin_addresses(port: int, trusted: bytes, token: str) -> dict[str, str]:
    """Where Danube's admin tools find the brokers, as one of them tells."""
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(trusted), grpc.access_token_call_credentials(token)
    )
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        found = await AdminClient(channel)("BrokerAdmin/ListBrokers")
    return {row.broker_id: row.admin_addr for row in found.brokers}


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_stock_client_with_tls_and_a_token_survives_a_restart_of_etcd(
    stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_etcd()
    authority = trustme.CA()
    trusted, broker_pem, root_file = (tmp_path / name for name in ("ca.pem", "b.pem", "root"))
    authority.cert_pem.write_to_path(str(trusted))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(broker_pem))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))  # by which brokers trust each other
    monkeypatch.delenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", raising=False)
    counts = ("--brokers", "2", "--storage", "1", "--etcd", "1")
    secured = ("--tls-cert", str(broker_pem), "--auth", str(root_file))
    with ClusterUp(tmp_path / "data", *counts, *secured) as cluster:
        root = root_file.read_text().strip()
        assert root_file.stat().st_mode & 0o077 == 0
        brokers: list[dict[str, Any]] = cluster.ready["brokers"]
        ports = {row["id"]: row["admin_port"] for row in brokers}
        addresses = {name: f"https://127.0.0.1:{port}" for name, port in ports.items()}
        for port in ports.values():
            assert await admin_addresses(port, trusted.read_bytes(), root) == addresses
        async with sulina.connect(cluster.url, token=root, tls=trusted) as native:
            grants = [f"produce:{TOPIC}", f"consume:{TOPIC}"]
            made = await native.admin("token.create", {"principal": "app", "grants": grants})
        urls = [f"https://127.0.0.1:{row['grpc_port']}" for row in brokers]
        first, other = [await stock.client(url, ca=trusted, token=made["token"]) for url in urls]
        producer = await first.producer(TOPIC)
        consumer = await first.consumer(TOPIC, "SHARED")
        await flow(producer, consumer, "before")
        # One of the brokers is not the owner, and forwards it over TLS.
        await flow(await other.producer(TOPIC), consumer, "at the other broker")
        # One of them is not the owner, and passes it on as a broker may.
        trusting = ssl.create_default_context(cafile=str(trusted))
        for row in brokers:
            async with http_client(row["http_url"]) as http:
                path = f"/api/v1/topics{TOPIC}/messages"
                headers = bearer(made["token"])
                await http.ok("POST", path, data=b"over HTTP", headers=headers, ssl=trusting)
        os.kill(cluster.pids["etcd-1"], signal.SIGKILL)
        await flow(producer, consumer, "while etcd is away")
        while (await asyncio.to_thread(cluster.event))["event"] != "started":
            pass
        await flow(producer, consumer, "after")
