"""The images are built, a cluster of them runs, a broker's container is killed: clients go on.

Opt-in: ``make containers``.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request

import pytest

import emr_jobs
import sulina
from localstack.emulators.credentials import Credentials
from localstack.emulators.s3 import s3_client
from sulina.client.client import Client
from sulina.lake.layout import parse_key
from tests.containers.cluster import ComposedCluster
from tests.containers.engine import Docker
from tests.containers.images import BROKER, STORAGE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("containers")]

OURS = [f"{kind}-{number}" for kind in ("broker", "storage") for number in (1, 2, 3)]


async def owner_of(client: Client, topic: str) -> str:
    found = await client.admin("topic.lookup", {"topic": topic})
    return str(found["broker"])


@pytest.mark.parametrize("image", [BROKER, STORAGE])
def test_an_image_says_what_is_in_it(docker: Docker, image: str) -> None:
    about = json.loads(docker("inspect", image))[0]["Config"]
    assert about["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    place = about["Labels"]["sulina.sbom"]
    bill = json.loads(docker("run", "--rm", "--entrypoint", "cat", image, place))
    assert bill["bomFormat"] == "CycloneDX"
    installed = {each["name"]: each for each in bill["components"]}
    assert installed["crc32c"]["hashes"] and "libc6" in installed
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    found = docker("run", "--rm", "--entrypoint", "python", image, "-c", code).split()
    assert {each.lower().replace("_", "-").replace(".", "-") for each in found} <= set(installed)


@pytest.mark.parametrize("image", [BROKER, STORAGE])
def test_the_environment_has_no_installer_and_no_secret_of_its_build(
    docker: Docker, image: str
) -> None:
    code = "import importlib.util; print(importlib.util.find_spec('pip') is None)"
    assert docker("run", "--rm", "--entrypoint", "python", image, "-c", code).strip() == "True"
    listing = docker("run", "--rm", "--entrypoint", "ls", image, "/run", "/opt/sulina")
    assert "secrets" not in listing and "ca.pem" not in listing


def test_nobody_is_root_and_nobody_can_write_but_to_the_volume(cluster: ComposedCluster) -> None:
    for service in OURS:
        assert cluster.inspect(service)["HostConfig"]["ReadonlyRootfs"]
        assert cluster.inside(service, "id", "-u").strip() == "10001"
        said = cluster.inside(service, "touch", "/opt/sulina/x", ok=False)
        assert "Read-only file system" in said


def test_the_endpoint_serves_http(cluster: ComposedCluster) -> None:
    with urllib.request.urlopen(f"{cluster.http_url}/health/ready", timeout=10) as answer:
        assert answer.status == 200


async def test_closed_ledgers_become_objects_of_the_s3_beside_it(cluster: ComposedCluster) -> None:
    topic = "/default/tiered"
    async with sulina.connect(cluster.url) as client:
        async with client.producer(topic) as producer:
            await producer.send_many([b"a record"] * 1000)
        await client.admin("ledger.offload", {"topic": topic})
        async with asyncio.timeout(120):
            while not await asyncio.to_thread(cluster.objects, "ledgers/namespace=default"):
                await asyncio.sleep(0.5)
    [key] = cluster.objects("ledgers/namespace=default")
    name = parse_key(key)
    assert (name.topic, name.first_offset) == ("tiered", 0)


async def test_clients_go_on_when_the_container_of_their_broker_is_killed(
    cluster: ComposedCluster,
) -> None:
    topic, count = "/default/containers", 400
    expected = [f"record {number}".encode() for number in range(count)]
    async with sulina.connect(cluster.url) as client:
        async with (
            client.producer(topic, name="test") as producer,
            client.consumer(topic, "s", start=sulina.Start.earliest()) as consumer,
        ):

            async def publish() -> None:
                for payload in expected:
                    await (await producer.send(payload))

            async def consume() -> list[bytes]:
                seen: dict[int, bytes] = {}
                while len(seen) < count:
                    message = await consumer.receive(timeout=120)
                    seen[message.offset] = message.payload
                    await consumer.ack(message)
                    if len(seen) == count // 4:
                        quarter.set()
                return [seen[offset] for offset in sorted(seen)]

            quarter = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(publish())
                consuming = group.create_task(consume())
                await quarter.wait()
                victim = await owner_of(client, topic)
                await asyncio.to_thread(cluster.kill, victim)
            assert consuming.result() == expected
        assert await owner_of(client, topic) != victim
    await asyncio.to_thread(cluster.start, victim)


@pytest.mark.parametrize("service", ["broker-1", "storage-1"])
def test_a_container_that_is_asked_to_stop_ends_by_itself(
    cluster: ComposedCluster, service: str
) -> None:
    assert cluster.stop(service) == 0
    cluster.start(service)


TOPIC = "/default/orders"


async def test_messages_become_a_table_in_localstack(
    cloud: ComposedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sulina.connect(cloud.url) as client:
        async with client.producer(TOPIC) as producer:
            await producer.send_many([b"an order"] * 1000)
        await client.admin("ledger.offload", {"topic": TOPIC})
        async with asyncio.timeout(120):
            while not all(
                row["object_bytes"]
                for row in await client.admin("ledger.list", {"topic": TOPIC})
                if row["records"]
            ):
                await asyncio.sleep(0.5)
    for name, value in Credentials().variables.items():
        monkeypatch.setenv(name, value)
    path = f"s3://sulina?endpoint={cloud.aws_url}"
    assert await asyncio.to_thread(emr_jobs.count, path=path, topic=TOPIC) == 1000
    buckets = s3_client(cloud.aws_url, Credentials()).list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == ["sulina"]


def test_the_layer_changes_nothing_but_s3(cloud: ComposedCluster) -> None:
    assert cloud.inspect("s3")["HostConfig"]["ReadonlyRootfs"]
    assert cloud.inside("s3", "id", "-u").strip() == "10001"
    assert len(cloud.names()) == 12
