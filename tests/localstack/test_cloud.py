"""``python -m localstack.cloud``: everything on one machine, from a message to a Parquet object."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet
import pytest

from localstack.cloud.folder import cloud_folder
from localstack.emulators.credentials import Credentials
from localstack.emulators.s3 import s3_client
from sulina.errors import Refused
from tests.cli.runner import BlockingClient, SulinaCommand
from tests.support.local_cluster import ClusterUp, wait_gone


class CloudUp(ClusterUp):
    """A real cloud of few processes."""

    command = ("localstack.cloud",)
    seconds = 300.0

    @property
    def url(self) -> str:
        return str(self.ready["cluster"]["url"])

    @property
    def pids(self) -> dict[str, int]:
        rows = [row for kind in ("brokers", "storage", "etcd") for row in self.cluster[kind]]
        return {"aws": self.ready["aws"]["pid"], **{row["id"]: row["pid"] for row in rows}}

    @property
    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ready["cluster"]
        return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_messages_become_parquet_in_the_bucket_and_everything_ends_together(
    tmp_path: Path,
) -> None:
    few = ("--brokers", "1", "--storage", "1", "--etcd", "1", "--aws-port", "0")
    with CloudUp(tmp_path / "cloud", *few) as cloud:
        aws = cloud.ready["aws"]
        assert aws["tier"] == (
            f"s3://sulina-lake/sulina?endpoint={aws['endpoint']}&region=us-east-1"
        )
        BlockingClient(cloud.url).publish("/default/t", "one", "two", "three")
        SulinaCommand(cloud.url)("ledger", "offload", "/default/t", "--wait")

        assert _payloads(aws) == ["one", "two", "three"]
        assert _parameter(aws, "/sulina/tier") == aws["tier"]
        assert BlockingClient(cloud.url).read("/default/t") == ["one", "two", "three"]
        variables = (tmp_path / "cloud/cloud.env").read_text()
        assert f"export SULINA_URL={cloud.url}" in variables
        assert f'export PATH={Path(sys.executable).parent}:"$PATH"' in variables

        pids = list(cloud.pids.values())
        assert cloud.stop(signal.SIGINT) == 0
        wait_gone(pids)


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


def _payloads(aws: dict[str, Any]) -> list[str]:
    """Of all objects in the bucket, as any reader of Parquet sees them."""
    client = s3_client(aws["endpoint"], Credentials())
    rows = client.list_objects_v2(Bucket=aws["bucket"], Prefix="sulina/ledgers/")["Contents"]
    found: list[str] = []
    for row in rows:
        body = client.get_object(Bucket=aws["bucket"], Key=row["Key"])["Body"].read()
        table = pyarrow.parquet.read_table(io.BytesIO(body), columns=["payload"])
        found += [payload.decode() for payload in table["payload"].to_pylist()]
    return found


def _parameter(aws: dict[str, Any], name: str) -> str:
    known = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client: Any = boto3.client(
        "ssm", endpoint_url=aws["endpoint"], region_name="us-east-1", **known
    )
    return str(client.get_parameter(Name=name)["Parameter"]["Value"])
