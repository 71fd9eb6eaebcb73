"""Danube's edge broker: takes MQTT and Danube's clients, and replicates to a cluster.

Danube's tests of it want two topics, one of them with a schema that the cluster knows.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.systems.base import SystemServer
from localstack.emulators.server import HOST, free_ports
from tests.danube.conformance.servers import Servers

_NAME = "edge1"
_SUBJECT = "telemetry-events"
_SCHEMA = {
    "type": "object",
    "properties": {"temperature": {"type": "number"}, "device_id": {"type": "string"}},
    "required": ["temperature"],
}
_START_SECONDS = 60.0


@contextmanager
def edge_broker(programs: Path, servers: Servers, folder: Path) -> Iterator[str]:
    """An edge broker of ``servers``; its URL. Raises ``CannotStart`` and ``SubprocessError``."""

    def admin(*arguments: str) -> None:
        command = (str(programs / "danube-admin"), *arguments)
        environment = {**os.environ, "DANUBE_ADMIN_ENDPOINT": servers.admin_url}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)

    schema = ("--schema-type", "json_schema", "--schema", json.dumps(_SCHEMA))
    admin("namespaces", "create", _NAME)
    admin("schemas", "register", _SUBJECT, *schema)
    server = SystemServer(folder / "edge.log")
    admin_port, raft_port, mqtt_port = free_ports(3)
    settings = folder / "edge.json"  # JSON is YAML
    settings.write_text(json.dumps(_settings(servers.url, mqtt_port)))
    server.run(
        [
            *(str(programs / "danube-broker"), "--mode", "edge", "--edge-config", str(settings)),
            *("--broker-addr", f"{HOST}:{server.port}", "--admin-addr", f"{HOST}:{admin_port}"),
            *("--raft-addr", f"{HOST}:{raft_port}", "--data-dir", str(folder / "edge")),
        ]
    )
    try:
        server.started(_START_SECONDS)
        yield f"http://{HOST}:{server.port}"
    finally:
        server.stop()


def _settings(url: str, mqtt_port: int) -> dict[str, object]:
    mapping = {
        "mqtt_pattern": "device/+/telemetry",
        "danube_topic": f"/{_NAME}/telemetry",
        "schema_subject": _SUBJECT,
        "validation_policy": "enforce",
        "extract_attributes": {"device_id": "$1"},
    }
    return {
        "edge": {
            "edge_name": _NAME,
            "cluster_url": url,
            "token": "",
            "heartbeat_interval_ms": 10000,
        },
        "replicator": {"batch_size": 100, "batch_timeout_ms": 1000},
        "mqtt": {
            "listener": f"{HOST}:{mqtt_port}",
            "topic_mappings": [mapping, {"mqtt_pattern": "#", "danube_topic": f"/{_NAME}/raw"}],
        },
    }
