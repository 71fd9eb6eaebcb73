"""An emulated AWS for the functions, with real boto3, and functions that can call each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from functions.shared import aws as function_clients
from localstack.emulators.server import EmulatorServer
from tests.functions.lambdas import Lambdas
from tests.spark.lake_folder import LakeFolder
from tests.support.emulators import moto as moto


@dataclass(frozen=True, slots=True)
class FunctionAccount:
    """An AWS account that the functions use: a bucket and a database of the test's own."""

    bucket: str
    database: str

    def client(self, service: str) -> Any:
        """The one that the functions use: making one takes a while."""
        return function_clients.client(service)

    def put(self, key: str, body: bytes = b"PAR1 and so on PAR1") -> None:
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def listed(self) -> list[str]:
        found = self.client("s3").list_objects_v2(Bucket=self.bucket)
        return [each["Key"] for each in found.get("Contents", ())]

    def put_lake(self, lake: LakeFolder, prefix: str = "") -> list[str]:
        """All objects of a folder; returns their keys."""
        keys = []
        for path in lake.objects():
            keys.append(prefix + path.relative_to(lake.root).as_posix())
            self.put(keys[-1], path.read_bytes())
        return keys


@pytest.fixture(scope="session")
def lambda_server() -> Iterator[Lambdas]:
    with Lambdas() as running:
        yield running


@pytest.fixture
def lambdas(lambda_server: Lambdas) -> Lambdas:
    """Lambda, as far as functions call functions; without any functions yet."""
    lambda_server.functions.clear()
    lambda_server.asked.clear()
    return lambda_server


@pytest.fixture
def account(
    moto: EmulatorServer, lambdas: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> FunctionAccount:
    """The environment points to an emulated AWS, with a lake and its database."""
    for name, value in moto.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", lambdas.url)
    name = f"lake-{uuid4().hex[:12]}"
    made = FunctionAccount(name, name.replace("-", "_"))
    made.client("s3").create_bucket(Bucket=name)
    made.client("glue").create_database(DatabaseInput={"Name": made.database})
    monkeypatch.setenv("SULINA_LAKE", f"s3://{name}?region=us-east-1")
    monkeypatch.setenv("SULINA_DATABASE", made.database)
    monkeypatch.setenv("SULINA_CLUSTER", name)
    return made
