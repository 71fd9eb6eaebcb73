"""``python -m localstack.cloud``: the stack on one machine, from a message to its statistics."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet
import pytest

import sulina
from localstack.autoscaling import show
from localstack.cloud.folder import cloud_folder
from sulina.errors import Refused
from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import LakePlace
from tests.support.local_cluster import ClusterUp, wait_gone

SECONDS = 300.0
"""How long a step may take; all of them take a minute on an idle machine."""
FEW = ("--storage", "1", "--etcd", "1", "--aws-port", "0", "--brokers", "1", "--no-engine")


class CloudUp(ClusterUp):
    """A real cloud of few processes."""

    command = ("localstack.cloud",)
    seconds = SECONDS

    @property
    def pids(self) -> dict[str, int]:
        rows = [row for kind in ("brokers", "storage", "etcd") for row in self.cluster[kind]]
        servers = {f"aws-{pid}": pid for pid in self.ready["aws"]["pids"]}
        return {**servers, **{row["id"]: row["pid"] for row in rows}}

    @property
    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ready["cluster"]
        return found

    @property
    def url(self) -> str:
        return str(self.cluster["url"])

    @property
    def token(self) -> str:
        return str(self.ready["variables"]["SULINA_TOKEN"])

    def aws(self, service: str) -> Any:
        """A client, as AWS's libraries make it from the variables of the cloud."""
        given = self.ready["variables"]
        name = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"
        return boto3.client(
            service,
            endpoint_url=given.get(name, given["AWS_ENDPOINT_URL"]),
            region_name=given["AWS_REGION"],
            aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
def test_a_message_is_tiered_cataloged_and_counted_by_the_scheduled_job(tmp_path: Path) -> None:
    # An hour lasts 12 s: the statistics job runs every hour, and covers today.
    with CloudUp(tmp_path / "cloud", *FEW, "--minute", "0.2") as cloud:
        asyncio.run(_publish_and_tier(cloud, "/default/t", [b"one", b"two", b"three"]))

        lake, outputs = cloud.ready["aws"]["bucket"], cloud.ready["outputs"]
        assert _counts(cloud, outputs) == {"desiredCount": 1, "runningCount": 1, "pendingCount": 0}
        tiered = _wait(lambda: _rows(cloud, lake, "ledgers/namespace=default/", "payload"))
        assert tiered == [{"payload": text} for text in (b"one", b"two", b"three")]
        assert _wait(lambda: _in_table(cloud)) == 3

        columns = ("topic", "records")
        counted = {"topic": "/default/t", "records": 3}
        _wait(lambda: counted in _rows(cloud, lake, "tables/statistics/", *columns))

        said = cloud.aws("lambda").invoke(FunctionName=outputs["functions"]["janitor"])
        assert b'"orphans": 0' in said["Payload"].read()
        failed = cloud.aws("sqs").get_queue_attributes(
            QueueUrl=outputs["failedCalls"], AttributeNames=["ApproximateNumberOfMessages"]
        )
        assert failed["Attributes"]["ApproximateNumberOfMessages"] == "0"
        assert f"export SULINA_URL={cloud.url}" in (tmp_path / "cloud/cloud.env").read_text()

        pids = list(cloud.pids.values())
        assert cloud.stop(signal.SIGINT) == 0
        wait_gone(pids)


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
def test_brokers_come_with_load_and_go_without_it_and_no_client_notices(tmp_path: Path) -> None:
    # Little of the quarter of a core that a broker has is a load: others use the machine too.
    few = (*FEW, "--max-brokers", "2", "--minute", "1", "--s3", "seaweedfs")
    with CloudUp(tmp_path / "cloud", *few, "--set", "scheduleStatistics=none") as cloud:
        seen = asyncio.run(show(cloud.url, cloud.token, SECONDS, print))

        assert seen.brokers == (1, 2, 1)
        assert not seen.faults
        assert seen.messages > 0


async def _publish_and_tier(cloud: CloudUp, topic: str, payloads: list[bytes]) -> None:
    async with sulina.connect(cloud.url, token=cloud.token) as client:
        async with client.producer(topic) as producer:
            await producer.send_many(payloads)
        await client.admin("ledger.offload", {"topic": topic})


def _counts(cloud: CloudUp, outputs: dict[str, Any]) -> dict[str, int]:
    """How many brokers there are, as `aws ecs describe-services` says."""
    found = cloud.aws("ecs").describe_services(
        cluster=outputs["cluster"], services=[outputs["service"]]
    )
    [service] = found["services"]
    return {name: service[name] for name in ("desiredCount", "runningCount", "pendingCount")}


def _in_table(cloud: CloudUp) -> int:
    """How many records the table of ``/default/t`` has, as any reader of Iceberg sees it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.ready["variables"].items():
            patch.setenv(name, value)
        place = LakePlace.parse(os.environ["SULINA_TIER"])
        catalog = open_catalog(os.environ["SULINA_CATALOG"], place)
        table = (os.environ["SULINA_DATABASE"], "default__t")
        if not catalog.table_exists(table):
            return 0
        return int(catalog.load_table(table).scan().to_arrow().num_rows)


def _rows(cloud: CloudUp, bucket: str, prefix: str, *columns: str) -> list[dict[str, Any]]:
    """Of all Parquet objects with a prefix, as any reader of Parquet sees them."""
    s3, found = cloud.aws("s3"), []
    for each in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ()):
        if each["Key"].endswith(".parquet"):
            body = s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
            table = pyarrow.parquet.read_table(io.BytesIO(body), columns=list(columns))
            found += table.to_pylist()
    return found


def _wait(look: Callable[[], Any]) -> Any:
    """What is found, when there is something."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.5)
    return found


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(Refused, match="has other contents: choose another folder with --data"):
        cloud_folder(tmp_path, "localstack", persistent=False).__enter__()
    assert (tmp_path / "mine").read_text() == "precious"


def test_what_outlived_its_objects_goes_and_what_lasts_stays(tmp_path: Path) -> None:
    for s3, persistent in (("localstack", False), ("seaweedfs", True)):
        folder = tmp_path / s3
        with cloud_folder(folder, s3, persistent=persistent):
            (folder / "cluster").mkdir()
        with cloud_folder(folder, s3, persistent=persistent):
            assert (folder / "cluster").exists() is persistent


def test_a_folder_is_for_one_cloud_of_one_kind(tmp_path: Path) -> None:
    folder = tmp_path / "cloud"
    with (
        cloud_folder(folder, "seaweedfs", persistent=True),
        pytest.raises(Refused, match="another cloud is using"),
    ):
        cloud_folder(folder, "seaweedfs", persistent=True).__enter__()
    with pytest.raises(Refused, match="belongs to a cloud with --s3 seaweedfs: use that option"):
        cloud_folder(folder, "localstack", persistent=False).__enter__()


def test_another_kind_begins_anew_where_nothing_lasted(tmp_path: Path) -> None:
    folder = tmp_path / "cloud"
    with cloud_folder(folder, "localstack", persistent=False):
        (folder / "cluster").mkdir()
    with cloud_folder(folder, "seaweedfs", persistent=True):
        assert not (folder / "cluster").exists()
        (folder / "cluster").mkdir()
    with cloud_folder(folder, "seaweedfs", persistent=True):
        assert (folder / "cluster").exists()


def test_a_person_s_mistake_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    ran = subprocess.run(
        [sys.executable, "-m", "localstack.cloud", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"sulina: {tmp_path} has other contents")
    assert "Traceback" not in ran.stderr
