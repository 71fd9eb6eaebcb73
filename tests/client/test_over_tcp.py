"""The client over real sockets, with the real broker behind them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from sulina.errors import Refused, Unavailable
from sulina.model import Start
from sulina.runtime.tls_files import TlsFiles
from tests.broker.cluster import Cluster
from tests.support.certificates import issue

TOPIC = "/default/orders"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path / "data") as running:
        yield running


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_no_broker_is_told_at_once() -> None:
    with pytest.raises(Unavailable, match="is `sulina up` running"):
        await sulina.connect("sulina://127.0.0.1:1").open()


async def test_a_name_that_no_host_can_have_is_told() -> None:
    with pytest.raises(Refused, match=r"'two\.\.dots' is not a valid host name"):
        await sulina.connect("sulina://two..dots:6655").open()


async def test_reading_leaves_no_trace(cluster: Cluster) -> None:
    async with cluster.client() as client:
        async with client.producer(TOPIC) as producer:
            await producer.send_many(numbers(0, 100))
        result = await client.read(TOPIC, Start.offset(40), max_records=5)
        assert [message.text() for batch in result for message in batch] == [
            "40",
            "41",
            "42",
            "43",
            "44",
        ]
        assert result.next_offset == 45
        (log,) = (await client.admin("topic.describe", {"topic": TOPIC}))["logs"]
        assert log["subscriptions"] == []


async def test_producing_and_consuming_at_full_speed_over_one_connection_does_not_lock_up(
    cluster: Cluster,
) -> None:
    payload = bytes(64 << 10)
    count = 1500  # more than all buffers between the two sides hold
    async with (
        cluster.client() as client,
        client.producer(TOPIC) as producer,
        client.consumer(TOPIC, "s", start=Start.earliest(), queue_bytes=64 << 20) as consumer,
    ):
        sending = asyncio.ensure_future(producer.send_many([payload] * count))
        received = 0
        while received < count:
            batch = await consumer.receive_batch(timeout=30)
            received += len(batch)
            await consumer.ack(batch)
        await (await sending)


# ---- TLS ----


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return issue(trustme.CA(), tmp_path_factory.mktemp("tls"), "broker")


@pytest.fixture
async def secure_port(tmp_path: Path, certificates: TlsFiles) -> AsyncIterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    assert certificates.certificate is not None
    context.load_cert_chain(certificates.certificate, certificates.key)
    async with run_embedded(tmp_path / "data", DoorSettings(Listen(port=0, tls=context))) as server:
        yield server.addresses.port


async def test_a_connection_over_tls(secure_port: int, certificates: TlsFiles) -> None:
    url = f"sulina+tls://127.0.0.1:{secure_port}"
    async with (
        sulina.connect(url, tls=certificates.ca) as client,
        client.producer(TOPIC) as producer,
        client.consumer(TOPIC, "s", start=Start.earliest()) as consumer,
    ):
        await producer.send_many([bytes(1000)] * 2000)
        await producer.flush()
        received = 0
        while received < 2000:
            received += len(await consumer.receive_batch(timeout=10))


async def test_a_broker_that_is_not_trusted_is_refused(secure_port: int) -> None:
    with pytest.raises(Refused, match="check the certificates"):
        await sulina.connect(f"sulina+tls://127.0.0.1:{secure_port}").open()


async def test_certificates_that_are_not_there_are_told(secure_port: int) -> None:
    client = sulina.connect(f"sulina+tls://127.0.0.1:{secure_port}", tls="absent.pem")
    with pytest.raises(Refused, match=r"absent\.pem cannot be read"):
        await client.open()


async def test_a_broker_without_tls_is_refused(cluster: Cluster) -> None:
    with pytest.raises((Refused, Unavailable), match=r"TLS|no broker"):
        await sulina.connect(f"sulina+tls://127.0.0.1:{cluster.port}", connect_timeout=2).open()


async def test_a_broker_that_wants_tls_is_not_spoken_to_in_the_clear(secure_port: int) -> None:
    with pytest.raises(Unavailable, match="closed the connection"):
        await sulina.connect(f"sulina://127.0.0.1:{secure_port}", connect_timeout=5).open()
