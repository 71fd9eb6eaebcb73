"""The cluster of containers on LocalStack: from a message to what any reader of Parquet sees.

Opt-in: ``make containers``.
"""

from __future__ import annotations

import asyncio

import pytest

import emr_jobs
import sulina
from localstack.emulators.credentials import Credentials
from localstack.emulators.s3 import s3_client
from tests.containers.cluster import ComposedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("containers")]

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
