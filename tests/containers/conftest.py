"""The engine, the images and the cluster, shared by all tests of containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import images
from tests.containers.cluster import LOCALSTACK, ComposedCluster
from tests.containers.engine import Docker, NoEngine, docker_engine

ASKED = "SULINA_CONTAINERS"


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """An engine with all images, if asked for: it takes minutes and gigabytes."""
    if not os.environ.get(ASKED):
        pytest.skip(f"builds images and runs eleven containers: `make containers`, or {ASKED}=1")
    folder = Path(os.environ.get("SULINA_CONTAINERS_FOLDER", images.ROOT / "build" / "containers"))
    try:
        with docker_engine(folder / "engine") as engine:
            images.prepare(engine, folder)
            yield engine
    except NoEngine as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cluster(docker: Docker) -> Iterator[ComposedCluster]:
    """Three brokers, three storage nodes, three members of etcd, S3, one endpoint."""
    with ComposedCluster(docker) as composed:
        yield composed


@pytest.fixture(scope="module")
def cloud(docker: Docker) -> Iterator[ComposedCluster]:
    """The same with LocalStack in the place of its S3."""
    with ComposedCluster(docker, "sulina-test-cloud", LOCALSTACK) as composed:
        yield composed
