"""Every kind of object store, for the contract that all of them keep."""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path

import pytest

from localstack.emulators.azurite import ACCOUNT, KEY, make_container
from localstack.emulators.credentials import Credentials
from localstack.emulators.gcs import make_bucket as make_gcs_bucket
from localstack.emulators.s3 import make_bucket
from localstack.emulators.server import EmulatorServer
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of
from tests.objects.tikv_cluster import TikvCluster
from tests.support.emulators import azurite as azurite
from tests.support.emulators import gcs as gcs
from tests.support.emulators import localstack as localstack
from tests.support.emulators import moto as moto
from tests.support.emulators import redis as redis
from tests.support.emulators import seaweedfs as seaweedfs

Opening = Callable[..., AbstractAsyncContextManager[ObjectStore]]
"""Opens the store under test, again and again if need be; keywords are settings."""

BUCKET = "contract"
S3_KINDS = ("seaweedfs", "localstack")
_KINDS = ("memory", "folder", *S3_KINDS, "gcs", "azurite", "redis", "tikv", "tikv-protocol")
_numbers = itertools.count()


@pytest.fixture(params=_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which store it is."""
    return str(request.param)


@pytest.fixture
def url(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A place for this test alone."""
    prefix = f"tests/{next(_numbers)}"
    if kind == "memory":
        return f"memory://{prefix}"
    if kind == "folder":
        return f"file://{tmp_path}/objects"
    if kind == "tikv":
        return f"tikv://{tikv_members()}/{prefix}-{uuid.uuid4()}"
    if kind == "tikv-protocol":
        cluster: TikvCluster = request.getfixturevalue("tikv_cluster")
        return f"tikv://{cluster.address}/{prefix}"
    server: EmulatorServer = request.getfixturevalue(kind)
    if kind == "redis":
        return redis_url(server, prefix)
    if kind == "azurite":
        return azure_url(server, monkeypatch, prefix)
    if kind == "gcs":
        make_gcs_bucket(server, BUCKET)
        return f"gs://{BUCKET}/{prefix}?endpoint={server.url}"
    return s3_url(server, monkeypatch, prefix)


@pytest.fixture
def opening(url: str) -> Opening:
    """Opens the store under test."""

    def opens(**settings: object) -> AbstractAsyncContextManager[ObjectStore]:
        made = ObjectSettings(**settings) if settings else None  # type: ignore[arg-type]
        return open_store(url, RealClock(), random.Random(1), settings=made)

    return opens


@pytest.fixture
def small_parts(kind: str) -> int:
    """The smallest size of parts that the store takes."""
    return {"gcs": 256 << 10}.get(kind, 5 << 20 if kind in S3_KINDS else 64 << 10)


@pytest.fixture
async def tikv_cluster() -> AsyncIterator[TikvCluster]:
    """A cluster of this process, whose requests can be made to fail."""
    async with TikvCluster() as cluster:
        yield cluster


@pytest.fixture
def s3_place(
    seaweedfs: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[EmulatorServer, str]:
    """SeaweedFS, and a prefix in its bucket."""
    prefix = f"tests/{next(_numbers)}"
    s3_url(seaweedfs, monkeypatch, prefix)
    return seaweedfs, prefix


def tikv_members() -> str:
    """The addresses of PD, of the TiKV cluster that the environment names."""
    found = os.environ.get("SULINA_TIKV")
    if not found:
        pytest.skip("set SULINA_TIKV to the addresses of a TiKV cluster's PD, host:port,host:port")
    return found


def redis_url(server: EmulatorServer, prefix: str) -> str:
    """The URL of a prefix in the first database."""
    return f"redis://127.0.0.1:{server.port}/0/{prefix}"


async def send_each_script(store: ObjectStore) -> None:
    """To Redis, once: with it, the first put would have more requests than others."""
    await store.put("first", chunks_of(b"x"))
    await store.delete("first")


def azure_url(server: EmulatorServer, monkeypatch: pytest.MonkeyPatch, prefix: str) -> str:
    """The URL of a prefix in a container that is there, with the key in the environment."""
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    make_container(server, BUCKET)
    return f"az://{ACCOUNT}/{BUCKET}/{prefix}?endpoint={server.url}"


def s3_url(server: EmulatorServer, monkeypatch: pytest.MonkeyPatch, prefix: str) -> str:
    """The URL of a prefix in a bucket that is there, with the credentials in the environment."""
    for name, value in server.credentials.variables.items():
        monkeypatch.setenv(name, value)
    _make_bucket_once(server.url, server.credentials)
    return f"s3://{BUCKET}/{prefix}?endpoint={server.url}"


@cache
def _make_bucket_once(url: str, credentials: Credentials) -> None:
    make_bucket(url, credentials, BUCKET)
