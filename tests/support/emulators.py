"""Emulated clouds for tests, one of each for all tests of a process: take a bucket of your own.

A ``conftest.py`` offers them to its folder with
``from tests.support.emulators import seaweedfs as seaweedfs``. Nothing is started before a test
asks for it. The environments they run in are made by ``make test`` ahead of time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localstack.emulators.aws import running_localstack
from localstack.emulators.gcs import running_gcs
from localstack.emulators.moto import running_moto
from localstack.emulators.redis import running_redis
from localstack.emulators.seaweedfs import running_seaweedfs
from localstack.emulators.server import EmulatorServer
from sulina.errors import Unavailable


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """A real S3 server, which checks signatures and keeps data over a restart."""
    with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """An emulated AWS account, of which S3, IAM, SQS and more work."""
    with running_localstack(tmp_path_factory.mktemp("localstack")) as server:
        yield server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """The API of most of AWS, with nothing behind it."""
    with running_moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """Google Cloud Storage."""
    with running_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """Redis, where the system has it."""
    try:
        server = running_redis(tmp_path_factory.mktemp("redis"))
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        yield server
