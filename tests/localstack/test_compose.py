"""The layer of containers with LocalStack fits over the cluster's own compose file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from localstack.emulators.aws import SERVER

ROOT = Path(__file__).parents[2]


@pytest.fixture
def base() -> Any:
    return yaml.safe_load((ROOT / "broker_containers" / "compose.yaml").read_text())["services"]


@pytest.fixture
def layer() -> Any:
    return yaml.safe_load((ROOT / "localstack" / "compose.yaml").read_text())["services"]


def test_it_stands_where_storage_nodes_look_for_s3(base: Any, layer: Any) -> None:
    assert set(layer) == {"s3"}
    for name in ("storage-1", "storage-2", "storage-3", "bucket"):
        assert "endpoint=http://s3:8333" in base[name]["environment"]["SULINA_STORAGE_TIER"]
    assert layer["s3"]["environment"]["GATEWAY_LISTEN"] == "0.0.0.0:8333"
    assert layer["s3"]["ports"] == ["127.0.0.1:${AWS_PORT:-4566}:8333"]


def test_its_image_is_made_of_files_that_are_there(layer: Any) -> None:
    # Relative to the folder of the first compose file, and then to the context.
    context = ROOT / "broker_containers" / layer["s3"]["build"]["context"]
    file = (context / layer["s3"]["build"]["dockerfile"]).read_text()

    copied = re.findall(r"^COPY ([^-\s]\S+) ", file, re.MULTILINE)
    assert copied == ["requirements/localstack.lock", "localstack/emulators/localstack_server.py"]
    assert all((context / each).is_file() for each in copied)
    assert "--require-hashes" in file


def test_its_image_starts_localstack_as_it_is_started_without_containers() -> None:
    """So its KMS, which test_emulators.py tests, works on the image's Python as well."""
    file = (ROOT / "localstack" / "Dockerfile").read_text()
    [entry] = re.findall(r"^ENTRYPOINT (.+)$", file, re.MULTILINE)
    assert json.loads(entry) == ["python", "-P", f"/opt/{SERVER.name}"]
    assert f"\nCOPY {SERVER.relative_to(ROOT)} /opt/\n" in file


def test_it_writes_only_where_it_may(layer: Any) -> None:
    file = (ROOT / "localstack" / "Dockerfile").read_text()

    [written] = re.findall(r"FILESYSTEM_ROOT=(\S+)", file)
    assert written in layer["s3"]["tmpfs"]
    assert re.findall(r"XDG_CACHE_HOME=(\S+)", file)[0].startswith(written)
