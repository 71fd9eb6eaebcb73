"""Emulated clouds for tests, one of each for all tests of a process: take a bucket of your own.

A ``conftest.py`` offers them to its folder with
``from tests.support.emulators import seaweedfs as seaweedfs``. Nothing is started before a test
asks for it. The environments they run in are made by ``make test`` ahead of time.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path

import pytest

from localstack.emulators.aws import running_localstack
from localstack.emulators.azurite import running_azurite
from localstack.emulators.gcs import running_gcs
from localstack.emulators.moto import running_moto
from localstack.emulators.redis import running_redis
from localstack.emulators.seaweedfs import running_seaweedfs
from localstack.emulators.server import EmulatorServer
from sulina.errors import Unavailable

_started: dict[str, EmulatorServer] = {}


def _shared(
    name: str, start: Callable[[Path], EmulatorServer], folders: pytest.TempPathFactory
) -> EmulatorServer:
    """The one that runs, or one that does from now on, until the process ends.

    No fixture ends it: each ``conftest.py`` that offers it makes a fixture of its own.
    """
    if name not in _started:
        server = start(folders.mktemp(name))
        atexit.register(server.kill)
        server.start()
        _started[name] = server
    return _started[name]


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """A real S3 server, which checks signatures and keeps data over a restart."""
    return _shared("seaweedfs", running_seaweedfs, tmp_path_factory)


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """An emulated AWS account, of which S3, IAM, SQS and more work."""
    return _shared("localstack", running_localstack, tmp_path_factory)


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """The API of most of AWS, with nothing behind it."""
    return _shared("moto", running_moto, tmp_path_factory)


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """Google Cloud Storage."""
    return _shared("gcs", running_gcs, tmp_path_factory)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """Azure Blob Storage, where npm has installed its emulator."""
    try:
        return _shared("azurite", running_azurite, tmp_path_factory)
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> EmulatorServer:
    """Redis, where the system or a wheel has it."""
    try:
        return _shared("redis", running_redis, tmp_path_factory)
    except Unavailable as error:
        pytest.skip(str(error))
